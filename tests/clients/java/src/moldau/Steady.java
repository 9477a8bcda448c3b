package moldau;

import com.fasterxml.jackson.databind.JsonNode;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** One producer that writes numbered records, a few at a time, until it is stopped; it is never made anew. */
final class Steady {
    private static final Map<String, Steady> ALL = new ConcurrentHashMap<>();

    private final KafkaProducer<byte[], byte[]> producer;
    private final List<String> acknowledged = new ArrayList<>();
    private final Thread thread;
    private volatile boolean stopping;
    private volatile Exception failure;

    static void register(Map<String, Agent.Operation> operations, String bootstrap) {
        operations.put("steady_start", request -> {
            ALL.put(request.get("name").asText(), new Steady(bootstrap, request));
            return true;
        });
        operations.put("steady_acknowledged", request -> ALL.get(request.get("name").asText()).list());
        operations.put("steady_stop", request -> ALL.remove(request.get("name").asText()).stop());
    }

    private Steady(String bootstrap, JsonNode request) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("linger.ms", "1");
        producer = new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer());
        String topic = request.get("topic").asText();
        String prefix = request.get("prefix").asText();
        int partitions = request.get("partitions").asInt();
        thread = new Thread(() -> run(topic, prefix, partitions, request.get("pause_ms").asInt()));
        thread.start();
    }

    private void run(String topic, String prefix, int partitions, int pause_ms) {
        try {
            for (int number = 0; !stopping; number++) {
                String value = prefix + number;
                byte[] bytes = value.getBytes(StandardCharsets.UTF_8);
                producer.send(new ProducerRecord<>(topic, number % partitions, null, bytes), (metadata, error) -> {
                    if (error != null) failure = error;
                    else synchronized (acknowledged) { acknowledged.add(value); }
                });
                Thread.sleep(pause_ms);
            }
            producer.flush();
        } catch (Exception error) {
            failure = error;
        }
    }

    private List<String> list() {
        synchronized (acknowledged) {
            return new ArrayList<>(acknowledged);
        }
    }

    private List<String> stop() throws Exception {
        stopping = true;
        thread.join();
        producer.close();
        if (failure != null) throw failure;
        return list();
    }
}
