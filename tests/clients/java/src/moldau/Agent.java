package moldau;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/**
 * The official Java client, driven line by line: a JSON request a line on standard input, a JSON answer a line on
 * standard output. One JVM serves a whole test session, so that a test costs milliseconds and not a JVM start.
 *
 * <pre>{"id": 1, "op": "produce", ...}  ->  {"id": 1, "ok": ...}  or  {"id": 1, "error": "SomeException: text"}</pre>
 */
public final class Agent {
    static final ObjectMapper JSON = new ObjectMapper();

    /** One operation by name. */
    interface Operation {
        Object run(JsonNode request) throws Exception;
    }

    private static final PrintStream OUT = System.out;

    public static void main(String[] arguments) throws Exception {
        Map<String, Operation> operations = new HashMap<>();
        String bootstrap = arguments[0];
        Records.register(operations, bootstrap);
        Steady.register(operations, bootstrap);
        Members.register(operations, bootstrap);
        Administration.register(operations, bootstrap);
        Transactions.register(operations, bootstrap);
        Secured.register(operations);
        ExecutorService threads = Executors.newCachedThreadPool();
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            JsonNode request = JSON.readTree(line);
            threads.submit(() -> answer(operations, request));
        }
        System.exit(0);
    }

    private static void answer(Map<String, Operation> operations, JsonNode request) {
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("id", request.get("id").asInt());
        try {
            answer.put("ok", operations.get(request.get("op").asText()).run(request));
        } catch (Throwable error) {
            while ((error instanceof ExecutionException || error instanceof CompletionException)
                    && error.getCause() != null) {
                error = error.getCause();
            }
            answer.put("error", error.getClass().getSimpleName() + ": " + error.getMessage());
        }
        synchronized (OUT) {
            try {
                OUT.println(JSON.writeValueAsString(answer));
            } catch (Exception broken) {
                OUT.println("{\"id\": " + answer.get("id") + ", \"error\": \"unprintable answer\"}");
            }
            OUT.flush();
        }
    }
}
