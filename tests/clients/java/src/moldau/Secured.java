package moldau;

import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.CreateDelegationTokenOptions;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Operations whose client settings, address and login among them, come with the request. */
final class Secured {
    private Secured() {}

    static void register(Map<String, Agent.Operation> operations) {
        operations.put("exchange", Secured::exchange);
        operations.put("create_token", Secured::createToken);
    }

    private static Properties properties(JsonNode request) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", request.get("address").asText());
        request.get("options").fields().forEachRemaining(f -> properties.put(f.getKey(), f.getValue().asText()));
        return properties;
    }

    /** One record into partition 0, and read back from there. */
    private static Object exchange(JsonNode request) throws Exception {
        Properties properties = properties(request);
        TopicPartition partition = new TopicPartition(request.get("topic").asText(), 0);
        long offset;
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer())) {
            String value = request.get("value").asText();
            offset = producer.send(new ProducerRecord<>(partition.topic(), 0, null, value)).get().offset();
        }
        try (KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer())) {
            consumer.assign(List.of(partition));
            consumer.seek(partition, offset);
            long deadline = System.currentTimeMillis() + 60_000;
            while (System.currentTimeMillis() < deadline) {
                for (ConsumerRecord<String, String> one : consumer.poll(Duration.ofMillis(100))) {
                    return one.value();
                }
            }
        }
        throw new IllegalStateException("nothing read");
    }

    /** A delegation token of the user who asks: its id, and its HMAC as Base64. */
    private static Object createToken(JsonNode request) throws Exception {
        try (Admin admin = Admin.create(properties(request))) {
            var token = admin.createDelegationToken(new CreateDelegationTokenOptions()).delegationToken().get();
            return Map.of("id", token.tokenInfo().tokenId(), "hmac", token.hmacAsBase64String());
        }
    }
}
