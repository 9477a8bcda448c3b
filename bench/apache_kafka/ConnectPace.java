import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.transforms.Cast;
import org.apache.kafka.connect.transforms.InsertField;
import org.apache.kafka.connect.transforms.ReplaceField;
import org.apache.kafka.connect.transforms.Transformation;

/** Rows a CPU second of one thread: Kafka's JsonConverter both ways, and a chain of three transforms. Arguments: a file of records
 *  with schema, one of the same without, a JSON object a line; rounds. */
public class ConnectPace {
    static final int WARM = 8;
    static Object sink;

    interface Work { void run() throws Exception; }

    public static void main(String[] args) throws Exception {
        List<byte[]> enveloped = lines(args[0]), plain = lines(args[1]);
        int rounds = Integer.parseInt(args[2]);
        JsonConverter with = converter("true"), without = converter("false");
        List<SchemaAndValue> typed = new ArrayList<>(), maps = new ArrayList<>();
        for (byte[] each : enveloped) typed.add(with.toConnectData("t", each));
        for (byte[] each : plain) maps.add(without.toConnectData("t", each));
        List<Transformation<SinkRecord>> chain = new ArrayList<>();
        Transformation<SinkRecord> replace = new ReplaceField.Value<>(), insert = new InsertField.Value<>(), cast = new Cast.Value<>();
        replace.configure(Map.of("exclude", "tail", "renames", "dest:destination"));
        insert.configure(Map.of("topic.field", "topic", "timestamp.field", "ts"));
        cast.configure(Map.of("spec", "distance:int64,id:string"));
        chain.addAll(List.of(replace, insert, cast));
        pace("read_schema", enveloped.size(), rounds, () -> { for (byte[] each : enveloped) sink = with.toConnectData("t", each); });
        pace("read_plain", plain.size(), rounds, () -> { for (byte[] each : plain) sink = without.toConnectData("t", each); });
        pace("write_schema", typed.size(), rounds, () -> { for (SchemaAndValue each : typed) sink = with.fromConnectData("t", each.schema(), each.value()); });
        pace("write_plain", typed.size(), rounds, () -> { for (SchemaAndValue each : typed) sink = without.fromConnectData("t", each.schema(), each.value()); });
        pace("chain_schema", typed.size(), rounds, () -> transform(chain, typed));
        pace("chain_plain", maps.size(), rounds, () -> transform(chain, maps));
    }

    static void transform(List<Transformation<SinkRecord>> chain, List<SchemaAndValue> values) {
        for (SchemaAndValue each : values) {
            SinkRecord record = new SinkRecord("t", 0, null, null, each.schema(), each.value(), 0, 1700000000000L,
                org.apache.kafka.common.record.TimestampType.CREATE_TIME);
            for (Transformation<SinkRecord> one : chain) record = one.apply(record);
            sink = record;
        }
    }

    static void pace(String name, int rows, int rounds, Work work) throws Exception {
        for (int i = 0; i < WARM; i++) work.run();
        long best = Long.MAX_VALUE;
        for (int i = 0; i < rounds; i++) {
            long began = ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime();
            work.run();
            best = Math.min(best, ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime() - began);
        }
        System.out.println(name + " " + rows * 1e9 / best);
    }

    static List<byte[]> lines(String path) throws Exception {
        List<byte[]> made = new ArrayList<>();
        for (String line : Files.readAllLines(Path.of(path))) made.add(line.getBytes(StandardCharsets.UTF_8));
        return made;
    }

    static JsonConverter converter(String schemas) {
        JsonConverter made = new JsonConverter();
        made.configure(Map.of("schemas.enable", schemas, "converter.type", "value"));
        return made;
    }
}
