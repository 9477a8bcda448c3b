import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.confluent.kafka.schemaregistry.avro.AvroSchema;
import io.confluent.kafka.schemaregistry.client.rest.entities.SchemaReference;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** What Confluent's client says of Avro schemas: a question in JSON a line, an answer in JSON a line. */
public class AvroAnswers {
  private static final ObjectMapper JSON = new ObjectMapper();

  public static void main(String[] arguments) throws Exception {
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      ObjectNode answer = JSON.createObjectNode();
      try {
        JsonNode question = JSON.readTree(line);
        if (question.has("writer")) {
          ArrayNode differences = answer.putArray("differences");
          parse(question, "reader").isBackwardCompatible(parse(question, "writer")).forEach(differences::add);
        } else {
          AvroSchema schema = parse(question, "schema");
          answer.put("canonical", schema.canonicalString());
          answer.put("resolved", schema.rawSchema().toString());
          answer.put("normalized", schema.normalize().canonicalString());
          answer.put("name", schema.name());
        }
      } catch (Throwable error) {
        answer.removeAll();
        answer.put("error", String.valueOf(error.getMessage()));
      }
      System.out.println(JSON.writeValueAsString(answer));
    }
  }

  private static AvroSchema parse(JsonNode question, String which) {
    List<SchemaReference> references = new ArrayList<>();
    Map<String, String> texts = new LinkedHashMap<>();
    if (question.has("references")) {
      question.get("references").fields().forEachRemaining(each -> {
        references.add(new SchemaReference(each.getKey(), each.getKey(), 1));
        texts.put(each.getKey(), each.getValue().asText());
      });
    }
    boolean isNew = question.has("new") && question.get("new").asBoolean();
    return new AvroSchema(question.get(which).asText(), references, texts, null, isNew);
  }
}
