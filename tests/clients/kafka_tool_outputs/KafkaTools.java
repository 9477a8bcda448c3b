import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs command lines of Kafka's own tools in one JVM, which costs a second each otherwise: a line of JSON in
 * ({"tool": class, "arguments": [...], "stdin": text}), a line of JSON out ({"code", "stdout", "stderr"}).
 *
 * <p>Exit.exit would end the JVM; instead the code is noted and the tool's thread is put to sleep for ever.
 */
public final class KafkaTools {
    private static final int[] CODE = {-1};
    private static final long LIMIT_MS = 60_000;

    public static void main(String[] none) throws Exception {
        PrintStream answers = System.out;
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        ObjectMapper json = new ObjectMapper();
        Exit.Procedure end = (status, message) -> {
            finish(status);
            while (true) {
                try {
                    Thread.sleep(Long.MAX_VALUE);
                } catch (InterruptedException ignored) {
                    continue;
                }
            }
        };
        Exit.setExitProcedure(end);
        Exit.setHaltProcedure(end);
        String line;
        while ((line = questions.readLine()) != null) {
            answers.println(json.writeValueAsString(answer(json.readValue(line, Map.class))));
            answers.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private static Map<String, Object> answer(Map<?, ?> question) throws Exception {
        List<Runnable> hooks = new ArrayList<>();
        Exit.setShutdownHookAdder((name, hook) -> hooks.add(hook));
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        ByteArrayOutputStream err = new ByteArrayOutputStream();
        System.setOut(new PrintStream(out, true, "UTF-8"));
        System.setErr(new PrintStream(err, true, "UTF-8"));
        System.setIn(new ByteArrayInputStream(String.valueOf(question.get("stdin")).getBytes("UTF-8")));
        String[] words = ((List<?>) question.get("arguments")).toArray(new String[0]);
        CODE[0] = -1;
        Thread tool = new Thread(() -> finish(run((String) question.get("tool"), words)), "main");
        tool.setDaemon(true);
        tool.start();
        synchronized (CODE) {
            if (CODE[0] == -1) {
                CODE.wait(LIMIT_MS);
            }
        }
        for (Runnable hook : hooks) {
            Thread thread = new Thread(hook);
            thread.setDaemon(true);
            thread.start();
            thread.join(10_000);
        }
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("code", CODE[0]);
        answer.put("stdout", out.toString("UTF-8"));
        answer.put("stderr", err.toString("UTF-8"));
        return answer;
    }

    private static int run(String tool, String[] words) {
        try {
            Class.forName(tool).getMethod("main", String[].class).invoke(null, (Object) words);
            return 0;
        } catch (InvocationTargetException wrapped) {
            System.err.print("Exception in thread \"main\" ");
            wrapped.getCause().printStackTrace();
            return 1;
        } catch (ReflectiveOperationException problem) {
            throw new IllegalArgumentException(tool, problem);
        }
    }

    private static void finish(int status) {
        synchronized (CODE) {
            if (CODE[0] == -1) {
                CODE[0] = status;
            }
            CODE.notifyAll();
        }
    }
}
