import io.confluent.kafka.schemaregistry.ParsedSchema;
import io.confluent.kafka.schemaregistry.avro.AvroSchema;
import io.confluent.kafka.schemaregistry.avro.AvroSchemaProvider;
import io.confluent.kafka.schemaregistry.client.CachedSchemaRegistryClient;
import io.confluent.kafka.schemaregistry.client.rest.entities.SchemaReference;
import io.confluent.kafka.schemaregistry.client.rest.exceptions.RestClientException;
import io.confluent.kafka.schemaregistry.protobuf.ProtobufSchema;
import io.confluent.kafka.schemaregistry.protobuf.ProtobufSchemaProvider;
import io.confluent.kafka.serializers.KafkaAvroDeserializer;
import io.confluent.kafka.serializers.KafkaAvroSerializer;
import io.confluent.kafka.serializers.protobuf.KafkaProtobufDeserializer;
import io.confluent.kafka.serializers.protobuf.KafkaProtobufSerializer;
import com.google.protobuf.DynamicMessage;
import com.google.protobuf.Message;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Callable;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericRecord;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Confluent's client, and its Avro and Protobuf serializers: one line for each answer, then the bytes. */
public class RegistryRoundTrip {
    static final String ORDER =
        "{\"type\":\"record\",\"name\":\"Order\",\"fields\":[{\"name\":\"id\",\"type\":\"long\"}]}";
    static final String UNFIT =
        "{\"type\":\"record\",\"name\":\"Order\",\"fields\":[{\"name\":\"id\",\"type\":\"string\"}]}";
    static final String MONEY = "syntax = \"proto3\"; package shop; message Money { int64 cents = 1; }";
    static final String BILL =
        "syntax = \"proto3\"; package shop; import \"money.proto\"; message Bill { Money sum = 1; string to = 2; }";

    static void say(String name, Object value) {
        System.out.println(name + "=" + value);
    }

    static Object refused(Callable<?> call) throws Exception {
        try {
            return call.call();
        } catch (RestClientException refusal) {
            return refusal.getStatus() + "/" + refusal.getErrorCode();
        }
    }

    public static void main(String[] words) throws Exception {
        String url = words[0];
        String bootstrap = words[1];
        CachedSchemaRegistryClient client = new CachedSchemaRegistryClient(
            Collections.singletonList(url), 100,
            Arrays.asList(new AvroSchemaProvider(), new ProtobufSchemaProvider()), Collections.emptyMap());
        client(client);
        protobufReferences(client);
        serializers(client, url, bootstrap);
    }

    static void client(CachedSchemaRegistryClient client) throws Exception {
        AvroSchema schema = new AvroSchema(ORDER);
        int id = client.register("java-value", schema);
        say("again", client.register("java-value", schema) == id);
        say("by id", client.getSchemaById(id).canonicalString());
        say("version", client.getVersion("java-value", schema));
        say("id", client.getId("java-value", schema) == id);
        say("latest", client.getLatestSchemaMetadata("java-value").getSchema());
        say("type", client.getLatestSchemaMetadata("java-value").getSchemaType());
        say("versions", client.getAllVersions("java-value"));
        say("subjects by id", client.getAllSubjectsById(id));
        say("has subject", client.getAllSubjects().contains("java-value"));
        say("fits", client.testCompatibility("java-value", new AvroSchema(UNFIT)));
        say("verbose", client.testCompatibilityVerbose("java-value", new AvroSchema(UNFIT)).toString()
            .contains("TYPE_MISMATCH"));
        say("unfit", refused(() -> client.register("java-value", new AvroSchema(UNFIT))));
        say("level", refused(() -> client.getCompatibility("java-value")));
        say("set level", client.updateCompatibility("java-value", "FULL"));
        say("level then", client.getCompatibility("java-value"));
        say("mode", client.getMode());
        say("set mode", client.setMode("READONLY", "java-value"));
        say("read-only", refused(() -> client.register("java-value", new AvroSchema(UNFIT))));
        say("mode back", client.setMode("READWRITE", "java-value"));
        say("deleted version", client.deleteSchemaVersion("java-value", "1"));
        say("permanently", client.deleteSchemaVersion("java-value", "1", true));
        say("gone", refused(() -> client.getLatestSchemaMetadata("java-value")));
        client.register("java-gone", new AvroSchema(ORDER));
        say("deleted subject", client.deleteSubject("java-gone"));
        say("subject permanently", client.deleteSubject("java-gone", true));
        say("no subject", refused(() -> client.deleteSubject("java-never")));
    }

    static void protobufReferences(CachedSchemaRegistryClient client) throws Exception {
        client.register("java-money", new ProtobufSchema(MONEY));
        List<SchemaReference> references =
            Collections.singletonList(new SchemaReference("money.proto", "java-money", 1));
        ProtobufSchema bill =
            new ProtobufSchema(BILL, references, Map.of("money.proto", MONEY), null, null);
        int id = client.register("java-bill", bill);
        ParsedSchema found = client.getSchemaById(id);
        say("references", found.references().size());
        say("same", found.canonicalString().equals(bill.canonicalString()));
        say("protected", refused(() -> client.deleteSchemaVersion("java-money", "1")));
    }

    static void serializers(CachedSchemaRegistryClient client, String url, String bootstrap) throws Exception {
        Map<String, Object> settings = Map.of("schema.registry.url", url);
        GenericRecord order = new GenericData.Record(new AvroSchema(ORDER).rawSchema());
        order.put("id", 7L);
        KafkaAvroSerializer avro = new KafkaAvroSerializer(client, settings);
        byte[] avroBytes = avro.serialize("java-avro", order);
        KafkaAvroDeserializer readAvro = new KafkaAvroDeserializer(client, settings);
        say("avro", readAvro.deserialize("java-avro", avroBytes));

        ProtobufSchema schema = (ProtobufSchema) client.getSchemaById(
            client.getLatestSchemaMetadata("java-bill").getId());
        DynamicMessage.Builder bill = schema.newMessageBuilder();
        bill.setField(schema.toDescriptor().findFieldByName("to"), "me");
        KafkaProtobufSerializer<Message> protobuf = new KafkaProtobufSerializer<>(client, settings);
        byte[] protobufBytes = protobuf.serialize("java-protobuf", bill.build());
        KafkaProtobufDeserializer<DynamicMessage> readProtobuf = new KafkaProtobufDeserializer<>(client);
        DynamicMessage back = readProtobuf.deserialize("java-protobuf", protobufBytes);
        say("protobuf", back.getField(back.getDescriptorForType().findFieldByName("to")));

        Properties producing = new Properties();
        producing.put("bootstrap.servers", bootstrap);
        producing.put("key.serializer", ByteArraySerializer.class.getName());
        producing.put("value.serializer", ByteArraySerializer.class.getName());
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(producing)) {
            producer.send(new ProducerRecord<>("java-avro", avroBytes)).get();
            producer.send(new ProducerRecord<>("java-protobuf", protobufBytes)).get();
        }
    }
}
