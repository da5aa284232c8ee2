import com.sun.management.OperatingSystemMXBean;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.Locale;
import java.util.Properties;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.LongAdder;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Repartitioned;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.QueryableStoreTypes;
import org.apache.kafka.streams.state.ReadOnlyKeyValueStore;

/**
 * The benchmark's jobs on Kafka Streams. Settings are system properties: job (count, words, pass, gets), guarantee
 * (at_least_once, exactly_once), brokers, in, out, app,
 * state (a directory), records, counted (what the job's counting stage must have seen), threads, commit (ms).
 *
 * <p>The only addition to a plain program is one counter per stage. A thread of its own samples them every 2 ms, so no
 * record pays for a clock. The last line of the output is the measurement, as JSON.
 */
public final class Peer {
  private static final long QUIET = Duration.ofMillis(500).toNanos();

  private final LongAdder seen = new LongAdder();
  private final LongAdder counted = new LongAdder();
  private final LongAdder outputs = new LongAdder();
  private volatile long runningAt;
  private volatile String result = "";
  private volatile String reads = "";

  public static void main(String[] args) throws Exception {
    new Peer().run(text("job"));
  }

  private static String text(String name) {
    String value = System.getProperty(name);
    if (value == null) throw new IllegalArgumentException("-D" + name + " is missing");
    return value;
  }

  private StreamsBuilder topology(String job) {
    StreamsBuilder builder = new StreamsBuilder();
    KStream<String, String> input =
        builder.stream(text("in"), Consumed.with(Serdes.String(), Serdes.String())).peek((k, v) -> seen.increment());
    switch (job) {
      case "pass" -> input.mapValues(v -> v.toUpperCase(Locale.ROOT)).peek((k, v) -> outputs.increment())
          .to(text("out"), Produced.with(Serdes.String(), Serdes.String()));
      case "count", "gets" -> count(input);
      case "words" -> count(input
          .flatMapValues(line -> Arrays.asList(line.split(" ")))
          .selectKey((k, word) -> word)
          .repartition(Repartitioned.<String, String>as("words").withKeySerde(Serdes.String()).withValueSerde(Serdes.String()))
          .peek((k, v) -> counted.increment()));
      default -> throw new IllegalArgumentException("unknown job " + job);
    }
    return builder;
  }

  private void count(KStream<String, String> input) {
    input.groupByKey(Grouped.with(Serdes.String(), Serdes.String()))
        .count(Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as("counts")
            .withKeySerde(Serdes.String()).withValueSerde(Serdes.Long()))
        .toStream()
        .peek((k, n) -> outputs.increment())
        .to(text("out"), Produced.with(Serdes.String(), Serdes.Long()));
  }

  private static Properties settings() {
    Properties p = new Properties();
    p.put(StreamsConfig.APPLICATION_ID_CONFIG, text("app"));
    p.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, text("brokers"));
    p.put(StreamsConfig.STATE_DIR_CONFIG, text("state"));
    p.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, Integer.getInteger("threads", 2));
    p.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, Integer.getInteger("commit", 100));
    p.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, text("guarantee").equals("exactly_once") ? StreamsConfig.EXACTLY_ONCE_V2 : StreamsConfig.AT_LEAST_ONCE);
    p.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 1);
    p.put(StreamsConfig.consumerPrefix(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG), "earliest");
    return p;
  }

  private void run(String job) throws Exception {
    CountDownLatch running = new CountDownLatch(1);
    KafkaStreams streams = new KafkaStreams(topology(job).build(), settings());
    streams.setStateListener((now, before) -> {
      if (now == KafkaStreams.State.RUNNING && running.getCount() > 0) {
        runningAt = System.nanoTime();
        running.countDown();
      }
    });
    long start = System.nanoTime();
    streams.start();
    Thread watcher = new Thread(() -> measure(start, running), "measure");
    watcher.start();
    Thread reader = new Thread(() -> readWhileItRuns(streams, running), "read");
    if (job.equals("gets")) reader.start();
    watcher.join();
    reader.join();
    if (job.equals("gets")) reads += ",\"at_rest\":" + readAtRest(streams);
    System.out.println("{" + result + reads + "}");
    streams.close(Duration.ofSeconds(30));
  }

  /** Waits for the first record, then until all are seen and nothing has moved for half a second. */
  private void measure(long start, CountDownLatch running) {
    try {
      long records = Long.parseLong(text("records"));
      long needed = Long.parseLong(text("counted"));
      while (seen.sum() == 0) Thread.sleep(2);
      long first = System.nanoTime();
      double cpu = cpu();
      long last = first;
      long before = -1;
      while (true) {
        long moved = seen.sum() + counted.sum() + outputs.sum();
        if (moved != before) last = System.nanoTime();
        else if (seen.sum() >= records && counted.sum() >= needed && System.nanoTime() - last > QUIET) break;
        before = moved;
        Thread.sleep(2);
      }
      double used = cpu() - cpu;
      running.await();
      result = String.format(Locale.ROOT,
          "\"to_running_s\":%.3f,\"records\":%d,\"counted\":%d,\"outputs\":%d,\"seconds\":%.3f,\"cpu_s\":%.3f,\"peak_mib\":%d",
          (runningAt - start) / 1e9, seen.sum(), counted.sum(), outputs.sum(), (last - first) / 1e9, used, peakMiB());
    } catch (InterruptedException | IOException e) {
      throw new IllegalStateException(e);
    }
  }

  private static ReadOnlyKeyValueStore<String, Long> store(KafkaStreams streams) {
    return streams.store(StoreQueryParameters.fromNameAndType("counts", QueryableStoreTypes.keyValueStore()));
  }

  /** One read every 200 microseconds while the job goes through the keys for the second time; up to a
   * millisecond that is late is made up for. */
  private void readWhileItRuns(KafkaStreams streams, CountDownLatch running) {
    try {
      long records = Long.parseLong(text("records"));
      running.await();
      while (seen.sum() < records / 2) Thread.sleep(1);
      ReadOnlyKeyValueStore<String, Long> store = store(streams);
      Random random = new Random(42);
      long[] calls = new long[4_000_000];
      int n = 0;
      for (long next = System.nanoTime(); seen.sum() < records && n < calls.length; next += 200_000) {
        long early = next - System.nanoTime();
        if (early > 0) Thread.sleep(0, (int) early);
        if (early < -1_000_000) next = System.nanoTime();
        calls[n++] = read(store, random, (int) (records / 2), false);
      }
      reads = ",\"under_load\":" + summary(calls, n);
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }

  private String readAtRest(KafkaStreams streams) {
    ReadOnlyKeyValueStore<String, Long> store = store(streams);
    Random random = new Random(42);
    int keys = (int) (Long.parseLong(text("records")) / 2);
    long[] calls = new long[4_000_000];
    int n = 0;
    for (long began = System.nanoTime(); System.nanoTime() - began < 3_000_000_000L && n < calls.length; ) {
      calls[n++] = read(store, random, keys, true);
    }
    return summary(calls, n);
  }

  private static long read(ReadOnlyKeyValueStore<String, Long> store, Random random, int keys, boolean there) {
    String key = "word" + random.nextInt(keys);
    long began = System.nanoTime();
    Long value = store.get(key);
    long took = System.nanoTime() - began;
    if (there && value == null) throw new IllegalStateException(key + " is not in the store");
    return took;
  }

  private static String summary(long[] calls, int n) {
    Arrays.sort(calls, 0, n);
    return String.format(Locale.ROOT, "{\"calls\":%d,\"p50_us\":%.1f,\"p99_us\":%.1f,\"p999_us\":%.1f,\"max_us\":%.1f}",
        n, calls[n / 2] / 1e3, calls[(int) (n * 0.99)] / 1e3, calls[(int) (n * 0.999)] / 1e3, calls[n - 1] / 1e3);
  }

  private static double cpu() {
    return ((OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime() / 1e9;
  }

  private static long peakMiB() throws IOException {
    for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
      if (line.startsWith("VmHWM:")) return Long.parseLong(line.replaceAll("\\D", "")) / 1024;
    }
    return 0;
  }
}
