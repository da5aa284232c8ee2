import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.TestInputTopic;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/** The jobs of BenchmarkDriver through TopologyTestDriver, a record at a time, each three times so that the last one is warm. */
public class PipeOneByOne {
    public static void main(String[] args) throws Exception {
        for (String job : new String[] {"stateless", "count", "count-in-memory"}) {
            for (int i = 0; i < 3; i++) {
                run(job, Integer.parseInt(args[0]));
            }
        }
    }

    static void run(String job, int records) throws Exception {
        StreamsBuilder b = new StreamsBuilder();
        KStream<String, String> lines = b.stream("lines", Consumed.with(Serdes.String(), Serdes.String()));
        if (job.equals("stateless")) {
            lines.mapValues(v -> v + "!").to("louder", Produced.with(Serdes.String(), Serdes.String()));
        } else {
            Materialized<String, Long, KeyValueStore<Bytes, byte[]>> counts =
                job.equals("count") ? Materialized.as("counts") : Materialized.as(Stores.inMemoryKeyValueStore("counts"));
            lines.groupByKey().count(counts.withKeySerde(Serdes.String()).withValueSerde(Serdes.Long()))
                .toStream().to("totals", Produced.with(Serdes.String(), Serdes.Long()));
        }
        Properties p = new Properties();
        p.put("application.id", "driver");
        p.put("bootstrap.servers", "none:1");
        p.put("state.dir", Files.createTempDirectory("topologytestdriver").toString());
        try (TopologyTestDriver d = new TopologyTestDriver(b.build(), p)) {
            TestInputTopic<String, String> in = d.createInputTopic("lines", new StringSerializer(), new StringSerializer());
            long cpu = cpu(), began = System.nanoTime();
            for (int i = 0; i < records; i++) {
                in.pipeInput("key-" + i % 100, "v");
            }
            double wall = (System.nanoTime() - began) / 1e9, used = (cpu() - cpu) / 1e9;
            System.out.printf("%s: %.0f records/s, %.0f per second of CPU%n", job, records / wall, records / used);
        }
    }

    static long cpu() {
        return ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
    }
}
