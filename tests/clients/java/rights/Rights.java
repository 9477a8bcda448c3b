import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.utils.SecurityUtils;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;

/**
 * Kafka's own authorizer, asked by lines of fields that tabs separate; numbers are those of the protocol.
 *
 *     new  super users  whether everyone may where there is no ACL
 *     acl  resource type, name, pattern type, principal, host, operation, permission
 *     ask  principal, host, operation, resource type, name       answered with ALLOWED or DENIED
 *     any  the same; is there any resource of the type?          answered so, too
 */
public final class Rights {
    record Asking(KafkaPrincipal principal, InetAddress clientAddress) implements AuthorizableRequestContext {
        public String listenerName() {
            return "LISTENER";
        }

        public SecurityProtocol securityProtocol() {
            return SecurityProtocol.PLAINTEXT;
        }

        public int requestType() {
            return 0;
        }

        public int requestVersion() {
            return 0;
        }

        public String clientId() {
            return "";
        }

        public int correlationId() {
            return 0;
        }
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        StandardAuthorizer authorizer = null;
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] fields = line.split("\t", -1);
            switch (fields[0]) {
                case "new" -> authorizer = made(fields[1], fields[2]);
                case "acl" -> authorizer.addAcl(Uuid.randomUuid(), acl(fields));
                default -> answers.println(asked(authorizer, fields));
            }
        }
    }

    private static StandardAuthorizer made(String superUsers, String everyone) throws Exception {
        StandardAuthorizer authorizer = new StandardAuthorizer();
        authorizer.configure(
            Map.of("node.id", "1", "super.users", superUsers, "allow.everyone.if.no.acl.found", everyone));
        authorizer.withPluginMetrics(new PluginMetricsImpl(new Metrics(), Map.of()));
        authorizer.loadSnapshot(new HashMap<>());
        authorizer.completeInitialLoad();
        return authorizer;
    }

    private static byte code(String text) {
        return Byte.parseByte(text);
    }

    private static StandardAcl acl(String[] fields) {
        return new StandardAcl(
            ResourceType.fromCode(code(fields[1])),
            fields[2],
            PatternType.fromCode(code(fields[3])),
            fields[4],
            fields[5],
            AclOperation.fromCode(code(fields[6])),
            AclPermissionType.fromCode(code(fields[7])));
    }

    private static Object asked(StandardAuthorizer authorizer, String[] fields) throws Exception {
        Asking asking = new Asking(SecurityUtils.parseKafkaPrincipal(fields[1]), InetAddress.getByName(fields[2]));
        AclOperation operation = AclOperation.fromCode(code(fields[3]));
        ResourceType type = ResourceType.fromCode(code(fields[4]));
        if (fields[0].equals("any")) {
            return authorizer.authorizeByResourceType(asking, operation, type);
        }
        ResourcePattern resource = new ResourcePattern(type, fields[5], PatternType.LITERAL);
        return authorizer.authorize(asking, List.of(new Action(operation, resource, 1, false, false))).get(0);
    }
}
