package moldau;

import com.fasterxml.jackson.databind.JsonNode;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * The Java clients of a cluster's torture: what torture/cluster_client.py does with librdkafka, with the same plans
 * (one JSON each on the command line, a thread each) and the same lines of history.
 *
 * <pre>
 * write      an idempotent producer          transact   transactions, most committed, some aborted
 * copy       consume-transform-produce       read       a group member that commits what it has read
 * </pre>
 *
 * No client is made anew because a broker died; only a producer that the library calls fenced or broken is.
 */
public final class ClusterClient {
    private static final int TRANSACTION_TIMEOUT_MS = 20_000;
    private static final long PATIENCE_MS = 180_000;
    private static final int BETWEEN_MS = 30;
    private static final String UNKNOWN = "unknown", ACKNOWLEDGED = "acknowledged";

    private final JsonNode plan;
    private final String name, topic, group, life;
    private final int partitions;
    private final Path stop;
    private final History history;
    private final Random draw;
    private int sends, transactions;

    public static void main(String[] arguments) throws Exception {
        List<Thread> threads = new ArrayList<>();
        for (String argument : arguments) {
            ClusterClient client = new ClusterClient(Agent.JSON.readTree(argument));
            Thread thread = new Thread(client::guarded, client.name);
            threads.add(thread);
            thread.start();
        }
        for (Thread thread : threads) thread.join();
        System.exit(0);
    }

    private ClusterClient(JsonNode plan) throws Exception {
        this.plan = plan;
        name = plan.get("name").asText();
        topic = plan.get("topic").asText();
        group = plan.get("group").asText();
        partitions = plan.get("partitions").asInt();
        Path folder = Path.of(plan.get("folder").asText());
        // Readers go on after the writers, until they have read everything.
        stop = folder.resolve(group.isEmpty() ? "stop-writers" : "stop-readers");
        history = new History(folder.resolve(name + ".history"));
        life = name + "." + Long.toHexString(System.nanoTime());
        draw = new Random(plan.get("seed").asLong() * 31 + name.hashCode());
    }

    private void guarded() {
        try {
            switch (plan.get("kind").asText()) {
                case "write" -> write();
                case "transact" -> transact();
                case "copy" -> copy();
                case "read" -> read();
                default -> throw new IllegalArgumentException(plan.toString());
            }
        } catch (Throwable error) {
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
        }
    }

    // Producers

    private void write() throws Exception {
        // Nothing is given up: a producer that gives up takes a new epoch and may send twice what is under way.
        try (KafkaProducer<byte[], byte[]> producer = producer(Map.of("delivery.timeout.ms", "600000"))) {
            for (int turn = 0; !stopping(); pause()) {
                for (int left = batch(); left > 0; left--) {
                    send(producer, topic, turn++ % partitions, "", null);
                }
            }
            producer.flush();
        }
    }

    private void transact() throws Exception {
        KafkaProducer<byte[], byte[]> producer = transactional();
        for (; !stopping(); pause()) {
            int number = transactions++;
            try {
                producer.beginTransaction();
                for (int left = batch(); left > 0; left--) {
                    send(producer, topic, draw.nextInt(partitions), "", number);
                }
                boolean commits = draw.nextDouble() < 0.7;
                if (!commits && draw.nextBoolean()) {
                    producer.flush();
                }
                producer = end(producer, number, commits);
            } catch (KafkaException error) {
                producer = giveUp(producer, number, null, error);
            }
        }
        producer.close(Duration.ofSeconds(5));
    }

    private KafkaProducer<byte[], byte[]> producer(Map<String, String> more) {
        Properties properties = common();
        properties.put("linger.ms", "1");
        properties.put("max.block.ms", "10000");
        properties.putAll(more);
        return new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer());
    }

    /** A producer with this client's id; it fences and ends what an earlier one left. */
    private KafkaProducer<byte[], byte[]> transactional() throws InterruptedException {
        long deadline = System.currentTimeMillis() + PATIENCE_MS;
        while (true) {
            KafkaProducer<byte[], byte[]> producer = producer(Map.of(
                    "transactional.id", "torture-" + name,
                    "transaction.timeout.ms", String.valueOf(TRANSACTION_TIMEOUT_MS),
                    "delivery.timeout.ms", String.valueOf(TRANSACTION_TIMEOUT_MS)));
            try {
                again(producer::initTransactions);
                return producer;
            } catch (KafkaException error) {
                say("initTransactions: " + error);
                producer.close(Duration.ZERO);
                if (System.currentTimeMillis() > deadline) throw error;
                Thread.sleep(100);
            }
        }
    }

    private void send(KafkaProducer<byte[], byte[]> producer, String to, int partition, String tail, Integer number)
            throws InterruptedException {
        int serial = sends++;
        String value = life + "." + serial + tail;
        double began = now();
        history.send(life, serial, to, partition, value, began, UNKNOWN, null, null, number);
        var record = new ProducerRecord<byte[], byte[]>(to, partition, null, value.getBytes(StandardCharsets.UTF_8));
        long deadline = System.currentTimeMillis() + PATIENCE_MS;
        while (true) {
            try {
                producer.send(record, (metadata, error) -> {
                    if (error == null) {
                        history.send(life, serial, to, partition, value, began, ACKNOWLEDGED, metadata.offset(),
                                now(), number);
                    } else {
                        say(value + ": " + error);
                    }
                });
                return;
            } catch (TimeoutException full) { // no room, or no metadata: the record was not taken
                if (System.currentTimeMillis() > deadline) throw full;
                Thread.sleep(50);
            }
        }
    }

    private KafkaProducer<byte[], byte[]> end(KafkaProducer<byte[], byte[]> producer, int number, boolean commit)
            throws InterruptedException {
        history.transaction(life, number, commit, UNKNOWN);
        try {
            again(commit ? producer::commitTransaction : producer::abortTransaction);
            history.transaction(life, number, commit, ACKNOWLEDGED);
            return producer;
        } catch (KafkaException error) {
            return giveUp(producer, number, commit, error);
        }
    }

    /** Abort where that still goes; else the producer is done for, and a new one ends it. */
    private KafkaProducer<byte[], byte[]> giveUp(
            KafkaProducer<byte[], byte[]> producer, int number, Boolean commit, KafkaException error)
            throws InterruptedException {
        say("transaction " + number + ": " + error);
        try {
            again(producer::abortTransaction);
            history.transaction(life, number, false, ACKNOWLEDGED);
            return producer;
        } catch (KafkaException | IllegalStateException worse) {
            say("abort of " + number + ": " + worse);
        }
        history.transaction(life, number, commit, UNKNOWN);
        producer.close(Duration.ZERO);
        return transactional();
    }

    // Group members

    private void copy() throws Exception {
        KafkaProducer<byte[], byte[]> producer = transactional();
        String target = plan.get("target").asText();
        try (KafkaConsumer<byte[], byte[]> consumer = consumer("read_committed")) {
            consumer.subscribe(List.of(topic));
            while (!stopping()) {
                ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(100));
                if (records.isEmpty()) continue;
                int number = transactions++;
                boolean copied = false;
                try {
                    producer.beginTransaction();
                    for (ConsumerRecord<byte[], byte[]> one : records) {
                        send(producer, target, draw.nextInt(partitions), ":" + text(one), number);
                    }
                    var offsets = positions(records);
                    var member = consumer.groupMetadata();
                    KafkaProducer<byte[], byte[]> now = producer;
                    again(() -> now.sendOffsetsToTransaction(offsets, member));
                    history.transaction(life, number, true, UNKNOWN);
                    again(producer::commitTransaction);
                    history.transaction(life, number, true, ACKNOWLEDGED);
                    copied = true;
                } catch (KafkaException error) {
                    producer = giveUp(producer, number, true, error);
                }
                if (!copied) goBack(consumer);
            }
        }
        producer.close(Duration.ofSeconds(5));
    }

    private void read() throws Exception {
        try (KafkaConsumer<byte[], byte[]> consumer = consumer("read_uncommitted")) {
            consumer.subscribe(List.of(topic), new ConsumerRebalanceListener() {
                @Override
                public void onPartitionsRevoked(Collection<TopicPartition> partitions) {}

                @Override
                public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
                    assigned(consumer, partitions);
                }
            });
            while (!stopping()) {
                ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(100));
                if (records.isEmpty()) continue;
                double began = now();
                var positions = positions(records);
                positions.forEach((at, to) -> history.commit(group, at, to.offset(), began, UNKNOWN, null));
                try {
                    consumer.commitSync(positions);
                } catch (KafkaException error) { // lost with its partitions, or the answer was: the next owner reads on
                    say("commit: " + error);
                    continue;
                }
                positions.forEach((at, to) -> history.commit(group, at, to.offset(), began, ACKNOWLEDGED, now()));
            }
        }
    }

    private void assigned(KafkaConsumer<byte[], byte[]> consumer, Collection<TopicPartition> places) {
        double began = now();
        try {
            consumer.committed(Set.copyOf(places)).forEach((at, found) ->
                    history.resume(group, at, found == null ? -1 : found.offset(), began, now()));
        } catch (KafkaException error) { // nothing is noted: a member that is not told cannot complain
            say("committed: " + error);
        }
    }

    private KafkaConsumer<byte[], byte[]> consumer(String isolation) {
        Properties properties = common();
        properties.put("group.id", group);
        properties.put("enable.auto.commit", "false");
        properties.put("auto.offset.reset", "earliest");
        properties.put("isolation.level", isolation);
        properties.put("fetch.max.wait.ms", "50");
        properties.put("max.poll.records", "50");
        if (plan.get("protocol").asText().equals("consumer")) {
            properties.put("group.protocol", "consumer");
        } else {
            properties.put("session.timeout.ms", "6000");
            properties.put("heartbeat.interval.ms", "500");
        }
        return new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private static Map<TopicPartition, OffsetAndMetadata> positions(ConsumerRecords<byte[], byte[]> records) {
        Map<TopicPartition, OffsetAndMetadata> found = new HashMap<>();
        for (ConsumerRecord<byte[], byte[]> one : records) {
            found.put(new TopicPartition(one.topic(), one.partition()), new OffsetAndMetadata(one.offset() + 1));
        }
        return found;
    }

    /** Read again from what the group has committed. It must succeed: what was read would be left out. */
    private void goBack(KafkaConsumer<byte[], byte[]> consumer) throws InterruptedException {
        again(() -> {
            Set<TopicPartition> places = consumer.assignment();
            consumer.committed(places).forEach((at, found) -> {
                if (found == null) {
                    consumer.seekToBeginning(List.of(at));
                } else {
                    consumer.seek(at, found.offset());
                }
            });
        });
    }

    // All

    private Properties common() {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", plan.get("address").asText());
        properties.put("client.id", name);
        properties.put("request.timeout.ms", "3000");
        properties.put("default.api.timeout.ms", "10000");
        properties.put("retry.backoff.ms", "20");
        properties.put("retry.backoff.max.ms", "200");
        properties.put("reconnect.backoff.ms", "20");
        properties.put("reconnect.backoff.max.ms", "150");
        return properties;
    }

    /** Call again what may be called again. */
    private static void again(Runnable call) throws InterruptedException {
        long deadline = System.currentTimeMillis() + PATIENCE_MS;
        while (true) {
            try {
                call.run();
                return;
            } catch (InterruptException ended) {
                throw ended;
            } catch (RetriableException error) {
                if (System.currentTimeMillis() > deadline) throw error;
                Thread.sleep(20);
            }
        }
    }

    private boolean stopping() {
        return Files.exists(stop);
    }

    private static void pause() throws InterruptedException {
        Thread.sleep(BETWEEN_MS);
    }

    private int batch() {
        return 1 + draw.nextInt(plan.get("batch_max").asInt());
    }

    private static String text(ConsumerRecord<byte[], byte[]> record) {
        return new String(record.value(), StandardCharsets.UTF_8);
    }

    private void say(String text) {
        System.out.println(name + ": " + text);
    }

    /** The clock of the history: CLOCK_MONOTONIC, as Python's time.monotonic(). */
    static double now() {
        return Math.round(System.nanoTime() / 1e5) / 1e4;
    }
}
