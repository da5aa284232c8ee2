import com.sun.management.OperatingSystemMXBean;
import com.sun.management.ThreadMXBean;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Locale;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.LongAdder;

/**
 * What the program counts about itself. A thread samples the counters every 2 ms, so no record pays for a clock. Time and
 * CPU count from the first record; time ends with the last thing that moved.
 */
final class Meter {
  private static final long QUIET = Duration.ofMillis(500).toNanos();

  final LongAdder seen = new LongAdder();
  final LongAdder counted = new LongAdder();
  final LongAdder outputs = new LongAdder();
  private long first;
  private long last;
  private double cpu;
  private long bytes;

  /** Returns when records were seen, needed were counted, and nothing has moved for half a second. */
  void untilDone(long records, long needed) throws InterruptedException {
    while (!sample() || seen.sum() < records || counted.sum() < needed || System.nanoTime() - last <= QUIET) Thread.sleep(2);
  }

  /** Returns when stop is open, whatever was seen. */
  void untilStopped(CountDownLatch stop) throws InterruptedException {
    while (stop.getCount() > 0) {
      sample();
      Thread.sleep(2);
    }
  }

  private long before = -1;

  /** Looks at the counters; false until there was a record. */
  private boolean sample() {
    if (first == 0) {
      if (seen.sum() == 0) return false;
      first = last = System.nanoTime();
      cpu = cpu();
      bytes = allocated();
    }
    long moved = seen.sum() + counted.sum() + outputs.sum();
    if (moved != before) last = System.nanoTime();
    before = moved;
    return true;
  }

  /** The measurement as JSON, without braces. */
  String result() throws IOException {
    double used = first == 0 ? 0 : cpu() - cpu;
    long allocated = first == 0 ? 0 : allocated() - bytes;
    return String.format(Locale.ROOT,
        "\"records\":%d,\"counted\":%d,\"outputs\":%d,\"seconds\":%.3f,\"cpu_s\":%.3f,\"bytes\":%d,\"peak_mib\":%d",
        seen.sum(), counted.sum(), outputs.sum(), (last - first) / 1e9, used, allocated, peakMiB());
  }

  private static double cpu() {
    return ((OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime() / 1e9;
  }

  /** Bytes that the threads which live now have allocated; the JVM does not count objects. */
  private static long allocated() {
    ThreadMXBean threads = (ThreadMXBean) ManagementFactory.getThreadMXBean();
    long total = 0;
    for (long n : threads.getThreadAllocatedBytes(threads.getAllThreadIds())) total += Math.max(0, n);
    return total;
  }

  private static long peakMiB() throws IOException {
    for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
      if (line.startsWith("VmHWM:")) return Long.parseLong(line.replaceAll("\\D", "")) / 1024;
    }
    return 0;
  }
}
