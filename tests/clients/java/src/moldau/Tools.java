package moldau;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.kafka.common.utils.Exit;

/**
 * Kafka's command-line tools, one after the other in one JVM: a line names a main class and its arguments, the answer
 * has what the tool printed and its exit code. A tool that exits is ended by an exception of ours.
 */
public final class Tools {
    private static final class Exited extends RuntimeException {
        final int code;

        Exited(int code) {
            this.code = code;
        }
    }

    public static void main(String[] arguments) throws Exception {
        ObjectMapper json = new ObjectMapper();
        PrintStream answers = System.out;
        Exit.setExitProcedure((code, message) -> {
            throw new Exited(code);
        });
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            JsonNode request = json.readTree(line);
            ByteArrayOutputStream said = new ByteArrayOutputStream();
            PrintStream stream = new PrintStream(said, true);
            System.setOut(stream);
            System.setErr(stream);
            String[] words = json.convertValue(request.get("arguments"), String[].class);
            int code = run(request.get("tool").asText(), words, stream);
            Map<String, Object> answer = new LinkedHashMap<>();
            answer.put("id", request.get("id").asInt());
            answer.put("ok", Map.of("code", code, "said", said.toString()));
            answers.println(json.writeValueAsString(answer));
            answers.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private static int run(String tool, String[] arguments, PrintStream said) throws Exception {
        try {
            Class.forName(tool).getMethod("main", String[].class).invoke(null, (Object) arguments);
            return 0;
        } catch (InvocationTargetException wrapped) {
            if (wrapped.getCause() instanceof Exited exited) {
                return exited.code;
            }
            wrapped.getCause().printStackTrace(said);
            return 1;
        }
    }
}
