import java.io.IOException;
import java.time.Duration;
import java.util.Locale;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.streams.CloseOptions;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.processor.StateRestoreListener;

/**
 * The benchmark's jobs on Kafka Streams. Settings are system properties: does (the topology), guarantee (at_least_once,
 * exactly_once), brokers, in, out, app, state (a directory), records, counted (what the job's counting stage must have
 * seen), threads, commit (ms), cache (bytes), compression, leave (the group, at the end), reads (how many keys), and until:
 * done (the default), running, or stopped (by the end of standard input).
 *
 * <p>RUNNING is printed when it is; the last line of the output is the measurement, as JSON.
 */
public final class Peer {
  private final Meter meter = new Meter();
  private final CountDownLatch running = new CountDownLatch(1);
  private final AtomicLong runningAt = new AtomicLong();
  private final AtomicLong restoreBegan = new AtomicLong();
  private final AtomicLong restoreEnded = new AtomicLong();

  public static void main(String[] args) throws Exception {
    new Peer().run();
  }

  private static String text(String name) {
    String value = System.getProperty(name);
    if (value == null) throw new IllegalArgumentException("-D" + name + " is missing");
    return value;
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
    p.put(StreamsConfig.producerPrefix("compression.type"), System.getProperty("compression", "none"));
    if (System.getProperty("cache") != null) p.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, Long.getLong("cache"));
    return p;
  }

  private void run() throws Exception {
    KafkaStreams streams = new KafkaStreams(new Jobs(text("in"), text("out"), meter).topology(text("does")).build(), settings());
    streams.setStateListener((now, before) -> {
      if (now == KafkaStreams.State.RUNNING && running.getCount() > 0) {
        runningAt.set(System.nanoTime());
        System.out.println("RUNNING"); // first: the measurement, which the latch lets go, must be the last line
        running.countDown();
      }
    });
    streams.setGlobalStateRestoreListener(restores());
    long start = System.nanoTime();
    streams.start();
    String reads = work(streams);
    running.await();
    String result = meter.result();
    if (Integer.getInteger("reads", 0) > 0) reads += ",\"at_rest\":" + new Reads(streams, Integer.getInteger("reads")).atRest();
    System.out.printf(Locale.ROOT, "{\"to_running_s\":%.3f,\"restore_s\":%.3f,%s%s}%n",
        (runningAt.get() - start) / 1e9, (restoreEnded.get() - restoreBegan.get()) / 1e9, result, reads);
    close(streams);
  }

  /** Waits for what ends the measurement, and reads meanwhile if it is to. */
  private String work(KafkaStreams streams) throws InterruptedException {
    long records = Long.parseLong(text("records"));
    int keys = Integer.getInteger("reads", 0);
    switch (System.getProperty("until", "done")) {
      case "running" -> running.await();
      case "stopped" -> meter.untilStopped(standardInput());
      default -> {
        String[] reads = {""};
        Thread reader = new Thread(() -> reads[0] = readWhileItRuns(streams, keys, records), "read");
        if (keys > 0) reader.start();
        meter.untilDone(records, Long.parseLong(text("counted")));
        reader.join();
        return reads[0];
      }
    }
    return "";
  }

  /** Begins when every key is in the store: when half of the records were seen. */
  private String readWhileItRuns(KafkaStreams streams, int keys, long records) {
    try {
      running.await();
      while (meter.seen.sum() < records / 2) Thread.sleep(1);
      return ",\"under_load\":" + new Reads(streams, keys).underLoad(meter, records);
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }

  private static CountDownLatch standardInput() {
    CountDownLatch ended = new CountDownLatch(1);
    Thread waiting = new Thread(() -> {
      try {
        while (System.in.read() >= 0) { }
      } catch (IOException e) {
        System.err.println(e);
      }
      ended.countDown();
    }, "stop");
    waiting.setDaemon(true);
    waiting.start();
    return ended;
  }

  private StateRestoreListener restores() {
    return new StateRestoreListener() {
      @Override
      public void onRestoreStart(TopicPartition partition, String store, long from, long to) {
        restoreBegan.compareAndSet(0, System.nanoTime());
      }

      @Override
      public void onBatchRestored(TopicPartition partition, String store, long end, long records) { }

      @Override
      public void onRestoreEnd(TopicPartition partition, String store, long total) {
        restoreEnded.set(System.nanoTime());
      }
    };
  }

  private static void close(KafkaStreams streams) {
    if (Boolean.getBoolean("leave")) {
      streams.close(CloseOptions.groupMembershipOperation(CloseOptions.GroupMembershipOperation.LEAVE_GROUP).withTimeout(Duration.ofSeconds(30)));
    } else {
      streams.close(Duration.ofSeconds(30));
    }
  }
}
