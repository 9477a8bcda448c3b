import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.header.ConnectHeaders;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.HeaderConverter;
import org.apache.kafka.connect.transforms.Transformation;
import org.apache.kafka.connect.transforms.predicates.Predicate;
import org.apache.kafka.common.record.TimestampType;

/** What Kafka's own converters, transforms and predicates answer: a JSON object a line in, one a line out.
 *
 *  read       payload (base64 or null) -> converter -> JSON with schema
 *  write      JSON with schema -> converter -> base64
 *  header     payload (base64) -> header converter -> JSON with schema, and back
 *  transform  record -> transform -> record or null
 *  predicate  record -> boolean
 *  configdef  the settings of a class
 */
public class ConnectOracle {
    static final ObjectMapper MAPPER = new ObjectMapper();
    static final JsonConverter WITH_SCHEMAS = new JsonConverter();

    public static void main(String[] args) throws Exception {
        WITH_SCHEMAS.configure(Map.of("schemas.enable", "true", "converter.type", "value", "replace.null.with.default", "false"));
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = in.readLine()) != null; ) {
            ObjectNode answer;
            try {
                answer = answer(MAPPER.readTree(line));
            } catch (Throwable error) {
                answer = MAPPER.createObjectNode();
                answer.put("error", error.getMessage() == null ? error.getClass().getName() : error.getMessage());
                answer.put("class", error.getClass().getName());
                if (error.getCause() != null) answer.put("cause", error.getCause().getMessage());
            }
            System.out.write((MAPPER.writeValueAsString(answer) + "\n").getBytes(StandardCharsets.UTF_8));
            System.out.flush();
        }
    }

    static Map<String, Object> config(JsonNode question) {
        Map<String, Object> made = new HashMap<>();
        question.path("config").fields().forEachRemaining(e -> made.put(e.getKey(), e.getValue().asText()));
        return made;
    }

    static ObjectNode answer(JsonNode question) throws Exception {
        Object made = question.has("type")
            ? Class.forName(question.get("type").asText()).getDeclaredConstructor().newInstance() : null;
        Map<String, Object> config = config(question);
        ObjectNode answer = MAPPER.createObjectNode();
        switch (question.get("op").asText()) {
            case "read": {
                Converter converter = (Converter) made;
                converter.configure(config, question.path("key").asBoolean(false));
                answer.set("data", described(converter.toConnectData("t", bytes(question.get("payload")))));
                break;
            }
            case "write": {
                Converter converter = (Converter) made;
                converter.configure(config, question.path("key").asBoolean(false));
                SchemaAndValue data = data(question.get("data"));
                put(answer, "payload", converter.fromConnectData("t", data.schema(), data.value()));
                break;
            }
            case "header": {
                HeaderConverter converter = (HeaderConverter) made;
                config.put("converter.type", "header");
                converter.configure(config);
                SchemaAndValue data = question.has("payload")
                    ? converter.toConnectHeader("t", "h", bytes(question.get("payload"))) : data(question.get("data"));
                answer.set("data", described(data));
                put(answer, "payload", converter.fromConnectHeader("t", "h", data.schema(), data.value()));
                break;
            }
            case "transform": {
                @SuppressWarnings("unchecked") Transformation<SinkRecord> transform = (Transformation<SinkRecord>) made;
                transform.configure(config);
                SinkRecord result = transform.apply(record(question.get("record")));
                if (result == null) answer.putNull("record"); else answer.set("record", described(result));
                break;
            }
            case "predicate": {
                @SuppressWarnings("unchecked") Predicate<SinkRecord> predicate = (Predicate<SinkRecord>) made;
                predicate.configure(config);
                answer.put("test", predicate.test(record(question.get("record"))));
                break;
            }
            case "configdef": {
                ConfigDef def = made instanceof Transformation ? ((Transformation<?>) made).config()
                    : made instanceof Predicate ? ((Predicate<?>) made).config()
                    : made instanceof HeaderConverter ? ((HeaderConverter) made).config() : ((Converter) made).config();
                ArrayNode rows = answer.putArray("settings");
                def.configKeys().values().forEach(key -> {
                    ObjectNode row = rows.addObject();
                    row.put("name", key.name).put("type", key.type.name()).put("importance", key.importance.name());
                    row.put("default", key.hasDefault() ? String.valueOf(key.defaultValue) : "REQUIRED");
                    row.put("validator", String.valueOf(key.validator)).put("doc", key.documentation);
                    row.put("group", key.group).put("width", String.valueOf(key.width)).put("display", key.displayName).put("order", key.orderInGroup);
                });
                break;
            }
        }
        return answer;
    }

    static byte[] bytes(JsonNode node) {
        return node == null || node.isNull() ? null : Base64.getDecoder().decode(node.asText());
    }

    static void put(ObjectNode answer, String name, byte[] bytes) {
        if (bytes == null) answer.putNull(name); else answer.put(name, Base64.getEncoder().encodeToString(bytes));
    }

    static SchemaAndValue data(JsonNode envelope) throws Exception {
        if (envelope == null || envelope.isNull()) return SchemaAndValue.NULL;
        return WITH_SCHEMAS.toConnectData("t", MAPPER.writeValueAsBytes(envelope));
    }

    static JsonNode described(SchemaAndValue data) throws Exception {
        return described(data.schema(), data.value());
    }

    static JsonNode described(Schema schema, Object value) throws Exception {
        byte[] bytes = WITH_SCHEMAS.fromConnectData("t", schema, value);
        return bytes == null ? MAPPER.nullNode() : MAPPER.readTree(bytes);
    }

    static SinkRecord record(JsonNode node) throws Exception {
        SchemaAndValue key = data(node.get("key")), value = data(node.get("value"));
        ConnectHeaders headers = new ConnectHeaders();
        for (JsonNode each : node.path("headers")) {
            SchemaAndValue data = data(each.get(1));
            headers.add(each.get(0).asText(), data.value(), data.schema());
        }
        JsonNode timestamp = node.get("timestamp");
        return new SinkRecord(node.path("topic").asText("t"), node.path("partition").asInt(0), key.schema(), key.value(), value.schema(),
            value.value(), node.path("offset").asLong(0), timestamp == null || timestamp.isNull() ? null : timestamp.asLong(),
            TimestampType.CREATE_TIME, headers);
    }

    static JsonNode described(SinkRecord record) throws Exception {
        ObjectNode made = MAPPER.createObjectNode();
        made.put("topic", record.topic());
        made.set("key", described(record.keySchema(), record.key()));
        made.set("value", described(record.valueSchema(), record.value()));
        if (record.timestamp() == null) made.putNull("timestamp"); else made.put("timestamp", record.timestamp());
        ArrayNode headers = made.putArray("headers");
        for (Header each : record.headers()) headers.addArray().add(each.key()).add(described(each.schema(), each.value()));
        return made;
    }
}
