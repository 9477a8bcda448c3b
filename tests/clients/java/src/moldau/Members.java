package moldau;

import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Group members that poll in a thread of their own; the test looks at their assignment and takes what they read. */
final class Members {
    private static final Map<String, Member> MEMBERS = new ConcurrentHashMap<>();

    private Members() {}

    static void register(Map<String, Agent.Operation> operations, String bootstrap) {
        operations.put("open", request -> {
            Member member = new Member(bootstrap, request);
            MEMBERS.put(request.get("member").asText(), member);
            member.thread.start();
            return true;
        });
        operations.put("assignment", request -> MEMBERS.get(request.get("member").asText()).assignment());
        operations.put("take", request -> MEMBERS.get(request.get("member").asText()).take());
        operations.put("read_replicas", request -> MEMBERS.get(request.get("member").asText()).replicas());
        operations.put("close", request -> {
            Member member = MEMBERS.remove(request.get("member").asText());
            member.consumer.wakeup();
            member.thread.join(20_000);
            return true;
        });
    }

    private static final class Member {
        final KafkaConsumer<byte[], byte[]> consumer;
        final Thread thread = new Thread(this::run);
        private final List<Object> taken = new ArrayList<>();
        private List<Object> assigned = List.of();
        private Throwable failure;

        Member(String bootstrap, JsonNode request) {
            Properties properties = new Properties();
            properties.put("bootstrap.servers", bootstrap);
            properties.put("group.id", request.get("group").asText());
            properties.put("enable.auto.commit", "false");
            properties.put("auto.offset.reset", "earliest");
            properties.put("metadata.max.age.ms", "1000");
            for (Map.Entry<String, JsonNode> one : request.path("config").properties()) {
                properties.put(one.getKey(), one.getValue().asText());
            }
            consumer = new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer());
            if (request.hasNonNull("pattern")) {
                consumer.subscribe(new SubscriptionPattern(request.get("pattern").asText()));
            } else {
                Collection<String> topics = new ArrayList<>();
                request.get("topics").forEach(topic -> topics.add(topic.asText()));
                consumer.subscribe(topics);
            }
        }

        private void run() {
            try (consumer) {
                while (true) {
                    ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(50));
                    remember(records);
                    if (!records.isEmpty()) {
                        commit();
                    }
                }
            } catch (WakeupException asked) {
                // The test closes the member.
            } catch (Throwable error) {
                synchronized (this) {
                    failure = error;
                }
            }
        }

        private void commit() {
            try {
                consumer.commitSync();
            } catch (WakeupException asked) {
                throw asked;
            } catch (RuntimeException rebalanced) {
                // Another member owns the partition now, and will read and commit the records itself.
            }
        }

        private synchronized void remember(ConsumerRecords<byte[], byte[]> records) {
            List<Object> now = new ArrayList<>();
            for (TopicPartition partition : consumer.assignment()) {
                now.add(List.of(partition.topic(), partition.partition()));
            }
            assigned = now;
            for (ConsumerRecord<byte[], byte[]> record : records) {
                taken.add(Records.describe(record));
            }
        }

        /** Of each partition the replica that it reads from; -1 is the leader. */
        Object replicas() {
            List<Object> answer = new ArrayList<>();
            consumer.metrics().forEach((name, metric) -> {
                if (name.name().equals("preferred-read-replica")) {
                    answer.add(List.of(Integer.parseInt(name.tags().get("partition")), metric.metricValue()));
                }
            });
            return answer;
        }

        synchronized Object assignment() {
            if (failure != null) {
                throw new IllegalStateException(failure);
            }
            return assigned;
        }

        synchronized Object take() {
            if (failure != null) {
                throw new IllegalStateException(failure);
            }
            List<Object> answer = new ArrayList<>(taken);
            taken.clear();
            return answer;
        }
    }
}
