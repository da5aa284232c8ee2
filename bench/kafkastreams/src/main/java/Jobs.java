import java.time.Duration;
import java.util.Arrays;
import java.util.Locale;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Repartitioned;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.WindowedSerdes;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.WindowStore;

/** The topologies, each as its documentation would have one write it. The only addition is one counter per stage. */
final class Jobs {
  private static final Duration WINDOW = Duration.ofMinutes(1);

  private final String in;
  private final String out;
  private final Meter meter;

  Jobs(String in, String out, Meter meter) {
    this.in = in;
    this.out = out;
    this.meter = meter;
  }

  StreamsBuilder topology(String job) {
    StreamsBuilder builder = new StreamsBuilder();
    KStream<String, String> input =
        builder.stream(in, Consumed.with(Serdes.String(), Serdes.String())).peek((k, v) -> meter.seen.increment());
    switch (job) {
      case "pass" -> texts(input.mapValues(v -> v.toUpperCase(Locale.ROOT)));
      case "map" -> texts(input.filter((k, v) -> k.charAt(k.length() - 1) % 2 == 0).map((k, v) -> KeyValue.pair(k, v.substring(0, 10))));
      case "count" -> count(input);
      case "windows" -> windows(input);
      case "words" -> count(input
          .flatMapValues(line -> Arrays.asList(line.split(" ")))
          .selectKey((k, word) -> word)
          .repartition(Repartitioned.<String, String>as("words").withKeySerde(Serdes.String()).withValueSerde(Serdes.String()))
          .peek((k, v) -> meter.counted.increment()));
      default -> throw new IllegalArgumentException("unknown job " + job);
    }
    return builder;
  }

  private void texts(KStream<String, String> changed) {
    changed.peek((k, v) -> meter.outputs.increment()).to(out, Produced.with(Serdes.String(), Serdes.String()));
  }

  private void count(KStream<String, String> input) {
    input.groupByKey(Grouped.with(Serdes.String(), Serdes.String()))
        .count(Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as("counts")
            .withKeySerde(Serdes.String()).withValueSerde(Serdes.Long()))
        .toStream()
        .peek((k, n) -> meter.outputs.increment())
        .to(out, Produced.with(Serdes.String(), Serdes.Long()));
  }

  private void windows(KStream<String, String> input) {
    input.groupByKey(Grouped.with(Serdes.String(), Serdes.String()))
        .windowedBy(TimeWindows.ofSizeWithNoGrace(WINDOW))
        .count(Materialized.<String, Long, WindowStore<Bytes, byte[]>>as("counts")
            .withKeySerde(Serdes.String()).withValueSerde(Serdes.Long()).withRetention(WINDOW.multipliedBy(2)))
        .toStream()
        .peek((k, n) -> meter.outputs.increment())
        .to(out, Produced.with(WindowedSerdes.timeWindowedSerdeFrom(String.class, WINDOW.toMillis()), Serdes.Long()));
  }
}
