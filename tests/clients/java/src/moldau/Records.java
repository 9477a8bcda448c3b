package moldau;

import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Produce, read from the beginning, and offsets by time. Bytes travel as base64, null as null. */
final class Records {
    private Records() {}

    static void register(Map<String, Agent.Operation> operations, String bootstrap) {
        operations.put("produce", request -> produce(bootstrap, request));
        operations.put("read", request -> read(bootstrap, request));
        operations.put("offsets_for_times", request -> offsetsForTimes(bootstrap, request));
    }

    private static Object produce(String bootstrap, JsonNode request) throws Exception {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("compression.type", request.path("codec").asText("none"));
        properties.put("linger.ms", "20");
        properties.put("delivery.timeout.ms", "20000");
        properties.put("request.timeout.ms", "10000");
        properties.put("max.request.size", "5000000");
        request.path("config").fields().forEachRemaining(f -> properties.put(f.getKey(), f.getValue().asText()));
        List<Object> answer = new ArrayList<>();
        try (KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer())) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (JsonNode record : request.get("records")) {
                List<Header> headers = new ArrayList<>();
                for (JsonNode header : record.path("headers")) {
                    headers.add(new RecordHeader(header.get(0).asText(), bytes(header.get(1))));
                }
                sent.add(producer.send(new ProducerRecord<>(
                        request.get("topic").asText(),
                        record.hasNonNull("partition") ? record.get("partition").asInt() : null,
                        record.hasNonNull("timestamp_ms") ? record.get("timestamp_ms").asLong() : null,
                        bytes(record.get("key")),
                        bytes(record.get("value")),
                        headers)));
            }
            producer.flush();
            for (Future<RecordMetadata> one : sent) {
                answer.add(List.of(one.get().partition(), one.get().offset()));
            }
        }
        return answer;
    }

    private static Object read(String bootstrap, JsonNode request) {
        Map<String, List<Object>> answer = new LinkedHashMap<>();
        int wanted = 0;
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(bootstrap)) {
            List<TopicPartition> partitions = new ArrayList<>();
            for (Map.Entry<String, JsonNode> topic : request.get("counts").properties()) {
                answer.put(topic.getKey(), new ArrayList<>());
                wanted += topic.getValue().asInt();
                for (PartitionInfo partition : consumer.partitionsFor(topic.getKey())) {
                    partitions.add(new TopicPartition(topic.getKey(), partition.partition()));
                }
            }
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            long deadline = System.currentTimeMillis() + 20_000;
            while (wanted > 0 && System.currentTimeMillis() < deadline) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(100))) {
                    answer.get(record.topic()).add(describe(record));
                    wanted--;
                }
            }
        }
        return answer;
    }

    private static Object offsetsForTimes(String bootstrap, JsonNode request) {
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(bootstrap)) {
            TopicPartition partition = new TopicPartition(request.get("topic").asText(), 0);
            List<Object> answer = new ArrayList<>();
            for (JsonNode time : request.get("times")) {
                var found = consumer.offsetsForTimes(Map.of(partition, time.asLong())).get(partition);
                answer.add(found == null ? null : found.offset());
            }
            return answer;
        }
    }

    static KafkaConsumer<byte[], byte[]> consumer(String bootstrap) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("enable.auto.commit", "false");
        properties.put("auto.offset.reset", "earliest");
        return new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    static Object describe(ConsumerRecord<byte[], byte[]> record) {
        Map<String, Object> answer = new HashMap<>();
        answer.put("topic", record.topic());
        answer.put("partition", record.partition());
        answer.put("offset", record.offset());
        answer.put("timestamp_ms", record.timestamp());
        answer.put("key", text(record.key()));
        answer.put("value", text(record.value()));
        List<Object> headers = new ArrayList<>();
        for (Header header : record.headers()) {
            List<Object> pair = new ArrayList<>();
            pair.add(header.key());
            pair.add(text(header.value()));
            headers.add(pair);
        }
        answer.put("headers", headers);
        return answer;
    }

    private static byte[] bytes(JsonNode node) {
        return node == null || node.isNull() ? null : Base64.getDecoder().decode(node.asText());
    }

    private static String text(byte[] bytes) {
        return bytes == null ? null : Base64.getEncoder().encodeToString(bytes);
    }
}
