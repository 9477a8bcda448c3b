import java.util.List;
import java.util.Map;
import org.opensearch.common.settings.Settings;
import org.opensearch.node.InternalSettingsPreparer;
import org.opensearch.node.Node;
import org.opensearch.transport.Netty4Plugin;

/**
 * One node of OpenSearch on loopback, from the jars on the class path alone: started as a program it wants a
 * distribution's folders and a security manager. Prints its port, and ends with its standard input.
 */
public final class LocalOpenSearch {
    private static final class LocalNode extends Node {
        LocalNode(Settings settings) {
            super(
                InternalSettingsPreparer.prepareEnvironment(settings, Map.of(), null, () -> "local"),
                List.of(Netty4Plugin.class),
                false);
        }
    }

    public static void main(String[] arguments) throws Exception {
        Settings settings = Settings.builder()
            .put("path.home", arguments[0])
            .put("discovery.type", "single-node")
            .put("network.host", "127.0.0.1")
            .put("http.port", "0")
            .put("transport.port", "0")
            .put("node.name", "local")
            .put("cluster.routing.allocation.disk.threshold_enabled", false)
            .build();
        try (LocalNode node = new LocalNode(settings)) {
            node.start();
            var http = node.injector().getInstance(org.opensearch.http.HttpServerTransport.class);
            System.out.println("port " + http.boundAddress().publishAddress().getPort());
            while (System.in.read() >= 0) {
                // until the test closes it
            }
        }
    }
}
