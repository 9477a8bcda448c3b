import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.google.protobuf.Message;
import io.confluent.kafka.schemaregistry.avro.AvroSchema;
import io.confluent.kafka.schemaregistry.avro.AvroSchemaUtils;
import io.confluent.kafka.schemaregistry.protobuf.ProtobufSchema;
import io.confluent.kafka.schemaregistry.protobuf.ProtobufSchemaUtils;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import org.apache.avro.generic.GenericDatumWriter;
import org.apache.avro.io.BinaryEncoder;
import org.apache.avro.io.EncoderFactory;

/** Says which bytes Confluent's classes write for a JSON value, and which JSON they print for it again. */
public class ValueAnswers {
  private static final ObjectMapper JSON = new ObjectMapper();

  public static void main(String[] arguments) throws Exception {
    BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = questions.readLine(); line != null; line = questions.readLine()) {
      JsonNode question = JSON.readTree(line);
      ObjectNode answer = JSON.createObjectNode();
      try {
        if (question.get("type").asText().equals("AVRO")) {
          avro(new AvroSchema(question.get("schema").asText()), question.get("value"), answer);
        } else {
          protobuf(new ProtobufSchema(question.get("schema").asText()), question.get("value"), answer);
        }
      } catch (Exception refused) {
        answer.removeAll();
        answer.put("refused", true);
      }
      System.out.write((JSON.writeValueAsString(answer) + "\n").getBytes(StandardCharsets.UTF_8));
      System.out.flush();
    }
  }

  private static void avro(AvroSchema schema, JsonNode value, ObjectNode answer) throws Exception {
    Object datum = AvroSchemaUtils.toObject(value, schema);
    ByteArrayOutputStream written = new ByteArrayOutputStream();
    BinaryEncoder encoder = EncoderFactory.get().binaryEncoder(written, null);
    new GenericDatumWriter<Object>(schema.rawSchema()).write(datum, encoder);
    encoder.flush();
    answer.put("bytes", Base64.getEncoder().encodeToString(written.toByteArray()));
    answer.set("json", JSON.readTree(AvroSchemaUtils.toJson(datum)));
  }

  private static void protobuf(ProtobufSchema schema, JsonNode value, ObjectNode answer) throws Exception {
    Message message = (Message) ProtobufSchemaUtils.toObject(value, schema);
    answer.put("bytes", Base64.getEncoder().encodeToString(message.toByteArray()));
    answer.set("json", JSON.readTree(ProtobufSchemaUtils.toJson(message)));
  }
}
