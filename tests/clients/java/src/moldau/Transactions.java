package moldau;

import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.AbortTransactionSpec;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListTransactionsOptions;
import org.apache.kafka.clients.admin.TransactionState;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Transactional producers that the test drives call by call, read_committed reading, and the Admin's view of both. */
final class Transactions {
    private final String bootstrap;
    private final Map<String, Transactional> producers = new ConcurrentHashMap<>();
    private final Admin admin;

    private record Transactional(KafkaProducer<byte[], byte[]> producer, List<Future<RecordMetadata>> sent) {}

    private Transactions(String bootstrap) {
        this.bootstrap = bootstrap;
        this.admin = Admin.create(Map.of(
                "bootstrap.servers", bootstrap,
                "default.api.timeout.ms", "15000",
                "request.timeout.ms", "10000"));
    }

    static void register(Map<String, Agent.Operation> operations, String bootstrap) {
        Transactions self = new Transactions(bootstrap);
        operations.put("txn_open", self::open);
        operations.put("txn_init", r -> done(() -> self.named(r).producer.initTransactions()));
        operations.put("txn_begin", r -> done(() -> self.named(r).producer.beginTransaction()));
        operations.put("txn_send", self::send);
        operations.put("txn_flush", r -> flush(self.named(r)));
        operations.put("txn_offsets", self::offsets);
        operations.put("txn_commit", r -> done(() -> self.named(r).producer.commitTransaction()));
        operations.put("txn_abort", r -> done(() -> self.named(r).producer.abortTransaction()));
        operations.put("txn_close", r -> done(() ->
                self.producers.remove(r.get("producer").asText()).producer.close(Duration.ZERO)));
        operations.put("txn_read", self::read);
        operations.put("txn_transform", self::transform);
        operations.put("describe_transaction", self::describe);
        operations.put("list_transactions", self::list);
        operations.put("abort_transaction", self::abort);
        operations.put("fence_producer", r -> {
            var fenced = self.admin.fenceProducers(List.of(r.get("transactional_id").asText()));
            fenced.all().get();
            return List.of(
                    fenced.producerId(r.get("transactional_id").asText()).get(),
                    fenced.epochId(r.get("transactional_id").asText()).get());
        });
        operations.put("active_producers", self::activeProducers);
    }

    private static Object done(Runnable step) {
        step.run();
        return true;
    }

    private Transactional named(JsonNode request) {
        return producers.get(request.get("producer").asText());
    }

    private Object open(JsonNode request) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("linger.ms", "5");
        properties.put("max.block.ms", "20000");
        request.path("config").properties().forEach(one -> properties.put(one.getKey(), one.getValue().asText()));
        producers.put(request.get("producer").asText(), new Transactional(
                new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer()),
                new ArrayList<>()));
        return true;
    }

    private Object send(JsonNode request) {
        Transactional one = named(request);
        for (JsonNode value : request.get("values")) {
            one.sent.add(one.producer.send(new ProducerRecord<>(
                    request.get("topic").asText(),
                    request.get("partition").asInt(),
                    null,
                    Base64.getDecoder().decode(value.asText()))));
        }
        return true;
    }

    private static Object flush(Transactional one) throws Exception {
        one.producer.flush();
        List<Future<RecordMetadata>> sent = new ArrayList<>(one.sent);
        one.sent.clear();
        for (Future<RecordMetadata> future : sent) {
            future.get();
        }
        return true;
    }

    private Object offsets(JsonNode request) {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        for (JsonNode row : request.get("offsets")) {
            offsets.put(new TopicPartition(row.get(0).asText(), row.get(1).asInt()),
                    new OffsetAndMetadata(row.get(2).asLong()));
        }
        return done(() -> named(request).producer.sendOffsetsToTransaction(
                offsets, new ConsumerGroupMetadata(request.get("group").asText())));
    }

    private KafkaConsumer<byte[], byte[]> consumer(JsonNode request) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("enable.auto.commit", "false");
        properties.put("auto.offset.reset", "earliest");
        properties.put("fetch.max.wait.ms", "100");
        request.path("config").properties().forEach(one -> properties.put(one.getKey(), one.getValue().asText()));
        return new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    /** Reads each partition until its end as this isolation level sees it, which is the consumer's own question. */
    private Object read(JsonNode request) {
        List<Object> answer = new ArrayList<>();
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(request)) {
            List<TopicPartition> places = new ArrayList<>();
            for (JsonNode one : request.get("places")) {
                places.add(new TopicPartition(one.get(0).asText(), one.get(1).asInt()));
            }
            consumer.assign(places);
            consumer.seekToBeginning(places);
            Map<TopicPartition, Long> ends = consumer.endOffsets(places);
            long deadline = System.currentTimeMillis() + 20_000;
            while (places.stream().anyMatch(one -> consumer.position(one) < ends.get(one))) {
                if (System.currentTimeMillis() > deadline) {
                    throw new IllegalStateException("the end does not come: " + ends);
                }
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(100))) {
                    answer.add(List.of(record.topic(), record.partition(), text(record.value())));
                }
            }
        }
        return answer;
    }

    /** Consume, transform, produce: every poll is a transaction, until so many records are through. */
    private Object transform(JsonNode request) throws Exception {
        Transactional one = named(request);
        int wanted = request.get("count").asInt();
        int transactions = 0;
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(request)) {
            consumer.subscribe(List.of(request.get("source").asText()));
            long deadline = System.currentTimeMillis() + 20_000;
            while (wanted > 0 && System.currentTimeMillis() < deadline) {
                ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(100));
                if (records.isEmpty()) {
                    continue;
                }
                one.producer.beginTransaction();
                Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
                for (ConsumerRecord<byte[], byte[]> record : records) {
                    byte[] value = (new String(record.value()) + "'").getBytes();
                    one.producer.send(new ProducerRecord<>(
                            request.get("sink").asText(), record.partition(), null, value));
                    offsets.put(new TopicPartition(record.topic(), record.partition()),
                            new OffsetAndMetadata(record.offset() + 1));
                }
                one.producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
                // Every third one fails at the end, and is done again from where the group stands.
                if (++transactions % 3 == 2) {
                    one.producer.abortTransaction();
                    for (TopicPartition place : offsets.keySet()) {
                        OffsetAndMetadata committed = consumer.committed(Set.of(place)).get(place);
                        consumer.seek(place, committed == null ? 0 : committed.offset());
                    }
                } else {
                    one.producer.commitTransaction();
                    wanted -= records.count();
                }
            }
        }
        return transactions;
    }

    private Object describe(JsonNode request) throws Exception {
        String id = request.get("transactional_id").asText();
        var found = admin.describeTransactions(List.of(id)).description(id).get();
        Map<String, Object> answer = new TreeMap<>();
        answer.put("coordinator", found.coordinatorId());
        answer.put("state", found.state().toString());
        answer.put("producer_id", found.producerId());
        answer.put("epoch", found.producerEpoch());
        answer.put("timeout_ms", found.transactionTimeoutMs());
        answer.put("started", found.transactionStartTimeMs().isPresent());
        answer.put("places", found.topicPartitions().stream().map(Object::toString).sorted().toList());
        return answer;
    }

    private Object list(JsonNode request) throws Exception {
        ListTransactionsOptions options = new ListTransactionsOptions();
        if (request.has("states")) {
            List<TransactionState> states = new ArrayList<>();
            request.get("states").forEach(state -> states.add(TransactionState.parse(state.asText())));
            options.filterStates(states);
        }
        if (request.has("producer_ids")) {
            List<Long> ids = new ArrayList<>();
            request.get("producer_ids").forEach(id -> ids.add(id.asLong()));
            options.filterProducerIds(ids);
        }
        if (request.has("longer_than_ms")) {
            options.filterOnDuration(request.get("longer_than_ms").asLong());
        }
        if (request.has("pattern")) {
            options.filterOnTransactionalIdPattern(request.get("pattern").asText());
        }
        List<Object> answer = new ArrayList<>();
        for (var one : admin.listTransactions(options).all().get()) {
            answer.add(List.of(one.transactionalId(), one.producerId(), one.state().toString()));
        }
        return answer;
    }

    private Object abort(JsonNode request) throws Exception {
        var place = new TopicPartition(request.get("topic").asText(), request.path("partition").asInt());
        admin.abortTransaction(new AbortTransactionSpec(place, request.get("producer_id").asLong(),
                (short) request.get("epoch").asInt(), request.get("coordinator_epoch").asInt())).all().get();
        return true;
    }

    private Object activeProducers(JsonNode request) throws InterruptedException, ExecutionException {
        var place = new TopicPartition(request.get("topic").asText(), request.path("partition").asInt());
        List<Object> answer = new ArrayList<>();
        admin.describeProducers(List.of(place)).partitionResult(place).get().activeProducers().forEach(one ->
                answer.add(List.of(one.producerId(), one.producerEpoch(), one.lastSequence(),
                        one.coordinatorEpoch().orElse(-1), one.currentTransactionStartOffset().orElse(-1))));
        return answer;
    }

    private static String text(byte[] bytes) {
        return Base64.getEncoder().encodeToString(bytes);
    }
}
