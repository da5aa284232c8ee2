import java.util.Arrays;
import java.util.Locale;
import java.util.Random;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.state.QueryableStoreTypes;
import org.apache.kafka.streams.state.ReadOnlyKeyValueStore;

/** Point reads of the store, of keys that are there, each as likely as the others, from a fixed seed. */
final class Reads {
  private final ReadOnlyKeyValueStore<String, Long> store;
  private final Random random = new Random(42);
  private final int keys;

  Reads(KafkaStreams streams, int keys) {
    this.store = streams.store(StoreQueryParameters.fromNameAndType("counts", QueryableStoreTypes.keyValueStore()));
    this.keys = keys;
  }

  /** One read every 200 microseconds until the job has seen its records; up to a millisecond that it is late is made up for. */
  String underLoad(Meter meter, long records) throws InterruptedException {
    long[] calls = new long[4_000_000];
    int n = 0;
    for (long next = System.nanoTime(); meter.seen.sum() < records && n < calls.length; next += 200_000) {
      long early = next - System.nanoTime();
      if (early > 0) Thread.sleep(0, (int) early);
      if (early < -1_000_000) next = System.nanoTime();
      calls[n++] = read(false);
    }
    return summary(calls, n);
  }

  /** One read after the other for three seconds. */
  String atRest() {
    long[] calls = new long[4_000_000];
    int n = 0;
    for (long began = System.nanoTime(); System.nanoTime() - began < 3_000_000_000L && n < calls.length; ) {
      calls[n++] = read(true);
    }
    return summary(calls, n);
  }

  private long read(boolean there) {
    String key = "word" + random.nextInt(keys);
    long began = System.nanoTime();
    Long value = store.get(key);
    long took = System.nanoTime() - began;
    if (there && value == null) throw new IllegalStateException(key + " is not in the store");
    return took;
  }

  private static String summary(long[] calls, int n) {
    if (n == 0) return "null";
    Arrays.sort(calls, 0, n);
    return String.format(Locale.ROOT, "{\"calls\":%d,\"p50_us\":%.1f,\"p99_us\":%.1f,\"p999_us\":%.1f,\"max_us\":%.1f}",
        n, calls[n / 2] / 1e3, calls[(int) (n * 0.99)] / 1e3, calls[(int) (n * 0.999)] / 1e3, calls[n - 1] / 1e3);
  }
}
