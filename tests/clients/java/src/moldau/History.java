package moldau;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.TopicPartition;

/** One client's history, a line of JSON each, as tests/histories/lines.py reads it; the fields' order is its. */
final class History {
    private final FileChannel file;

    History(Path path) throws IOException {
        file = FileChannel.open(path, StandardOpenOption.CREATE, StandardOpenOption.WRITE, StandardOpenOption.APPEND);
    }

    void send(String producer, int number, String topic, int partition, String value, double invoked_s, String outcome,
            Long offset, Double ended_s, Integer transaction) {
        line("send", producer, number, List.of(topic, partition), value, invoked_s, outcome, offset, ended_s, -1, true,
                true, transaction);
    }

    void transaction(String producer, int number, Boolean commit, String outcome) {
        line("transaction", producer, number, commit, outcome);
    }

    void commit(String group, TopicPartition at, long offset, double invoked_s, String outcome, Double ended_s) {
        line("commit", group, List.of(at.topic(), at.partition()), offset, invoked_s, outcome, ended_s);
    }

    void resume(String group, TopicPartition at, long offset, double invoked_s, double ended_s) {
        line("resume", group, List.of(at.topic(), at.partition()), offset, invoked_s, ended_s);
    }

    private synchronized void line(String kind, Object... fields) {
        try {
            String text = Agent.JSON.writeValueAsString(Map.of(kind, Arrays.asList(fields)));
            ByteBuffer bytes = ByteBuffer.wrap((text + "\n").getBytes(StandardCharsets.UTF_8));
            while (bytes.hasRemaining()) file.write(bytes);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }
}
