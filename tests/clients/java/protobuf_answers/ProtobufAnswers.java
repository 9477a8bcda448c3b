import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.confluent.kafka.schemaregistry.client.rest.entities.SchemaReference;
import io.confluent.kafka.schemaregistry.protobuf.ProtobufSchema;
import io.confluent.kafka.schemaregistry.protobuf.diff.Difference;
import io.confluent.kafka.schemaregistry.protobuf.diff.SchemaDiff;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Says what Confluent's classes make of Protobuf schemas: a question and an answer a line, in JSON. */
public class ProtobufAnswers {
  private static final ObjectMapper JSON = new ObjectMapper();

  public static void main(String[] arguments) throws Exception {
    BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = questions.readLine(); line != null; line = questions.readLine()) {
      JsonNode question = JSON.readTree(line);
      ObjectNode answer = JSON.createObjectNode();
      try {
        if (question.has("reader")) {
          compare(schema(question.get("reader")), schema(question.get("writer")), answer);
        } else {
          print(schema(question), answer);
        }
      } catch (RuntimeException refused) {
        answer.put("refused", true);
      }
      System.out.write((JSON.writeValueAsString(answer) + "\n").getBytes(StandardCharsets.UTF_8));
      System.out.flush();
    }
  }

  private static ProtobufSchema schema(JsonNode given) {
    List<SchemaReference> references = new ArrayList<>();
    Map<String, String> texts = new LinkedHashMap<>();
    given.get("references").fields().forEachRemaining(each -> {
      int version = each.getValue().get("version").asInt();
      references.add(new SchemaReference(each.getKey(), each.getKey(), version));
      texts.put(each.getKey(), each.getValue().get("schema").asText());
    });
    return new ProtobufSchema(given.get("schema").asText(), references, texts, null, null);
  }

  private static void print(ProtobufSchema schema, ObjectNode answer) {
    answer.put("canonical", schema.canonicalString());
    try {
      answer.put("normalized", schema.normalize().canonicalString());
    } catch (RuntimeException refused) {
      answer.putNull("normalized");
    }
  }

  private static void compare(ProtobufSchema reader, ProtobufSchema writer, ObjectNode answer) {
    ArrayNode differences = answer.putArray("differences");
    for (Difference each : SchemaDiff.compare(writer, reader)) {
      differences.addArray().add(each.getType().toString()).add(each.getFullPath());
    }
  }
}
