package moldau;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ClassicGroupDescription;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.clients.admin.ListGroupsOptions;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.MemberDescription;
import org.apache.kafka.clients.admin.MemberToRemove;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.GroupType;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionReplica;
import org.apache.kafka.common.config.ConfigResource;

/** The Admin client's calls, each answering plain JSON. */
final class Administration {
    private final Admin admin;

    private Administration(String bootstrap) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("default.api.timeout.ms", "15000");
        properties.put("request.timeout.ms", "10000");
        admin = Admin.create(properties);
    }

    static void register(Map<String, Agent.Operation> operations, String bootstrap) {
        Administration self = new Administration(bootstrap);
        operations.put("create_topic", self::createTopic);
        operations.put("delete_topic", r -> self.admin.deleteTopics(List.of(topic(r))).all().get());
        operations.put("list_topics", r -> self.admin.listTopics().names().get());
        operations.put("describe_topic", self::describeTopic);
        operations.put("create_partitions", self::createPartitions);
        operations.put("describe_configs", self::describeConfigs);
        operations.put("alter_config", self::alterConfig);
        operations.put("list_config_resources", self::listConfigResources);
        operations.put("list_groups", self::listGroups);
        operations.put("describe_consumer_group", self::describeConsumerGroup);
        operations.put("describe_classic_group", self::describeClassicGroup);
        operations.put("delete_group", r -> self.admin.deleteConsumerGroups(List.of(group(r))).all().get());
        operations.put("group_offsets", self::groupOffsets);
        operations.put("alter_group_offset", self::alterGroupOffset);
        operations.put("delete_group_offset", r ->
                self.admin.deleteConsumerGroupOffsets(group(r), Set.of(partition(r))).all().get());
        operations.put("remove_members", self::removeMembers);
        operations.put("list_offset", self::listOffset);
        operations.put("delete_records", self::deleteRecords);
        operations.put("describe_log_dirs", self::describeLogDirs);
        operations.put("describe_replica_log_dir", self::describeReplicaLogDir);
        operations.put("describe_cluster", self::describeCluster);
        operations.put("elect_leader", self::electLeader);
        operations.put("describe_producers", self::describeProducers);
        operations.put("list_reassignments", r -> self.admin.listPartitionReassignments().reassignments().get().size());
        operations.put("describe_features", r -> self.admin.describeFeatures().featureMetadata().get().toString());
    }

    private Object createTopic(JsonNode request) throws Exception {
        Map<String, String> configs = new HashMap<>();
        request.path("configs").properties().forEach(one -> configs.put(one.getKey(), one.getValue().asText()));
        Optional<Integer> partitions =
                request.hasNonNull("partitions") ? Optional.of(request.get("partitions").asInt()) : Optional.empty();
        var created = admin.createTopics(List.of(new NewTopic(topic(request), partitions, Optional.empty())
                .configs(configs)));
        created.all().get();
        return Map.of(
                "partitions", created.numPartitions(topic(request)).get(),
                "replication_factor", created.replicationFactor(topic(request)).get(),
                "id", created.topicId(topic(request)).get().toString(),
                "configs", created.config(topic(request)).get().entries().size());
    }

    private Object describeTopic(JsonNode request) throws Exception {
        var found = admin.describeTopics(List.of(topic(request))).allTopicNames().get().get(topic(request));
        List<Object> partitions = new ArrayList<>();
        found.partitions().forEach(p -> partitions.add(Map.of(
                "partition", p.partition(),
                "leader", p.leader().id(),
                "replicas", p.replicas().stream().map(node -> node.id()).toList(),
                "isr", p.isr().stream().map(node -> node.id()).toList())));
        return Map.of("id", found.topicId().toString(), "internal", found.isInternal(), "partitions", partitions);
    }

    private Object createPartitions(JsonNode request) throws Exception {
        int count = request.get("count").asInt();
        return admin.createPartitions(Map.of(topic(request), NewPartitions.increaseTo(count))).all().get();
    }

    private Object describeConfigs(JsonNode request) throws Exception {
        ConfigResource resource = resource(request);
        var options = new DescribeConfigsOptions().includeSynonyms(true).includeDocumentation(true);
        Map<String, Object> answer = new TreeMap<>();
        for (ConfigEntry entry : admin.describeConfigs(List.of(resource), options).all().get().get(resource).entries()) {
            Map<String, Object> row = new HashMap<>();
            row.put("value", entry.value());
            row.put("source", entry.source().name());
            row.put("read_only", entry.isReadOnly());
            row.put("sensitive", entry.isSensitive());
            row.put("type", entry.type().name());
            row.put("synonyms", entry.synonyms().stream().map(one -> one.name() + "@" + one.source()).toList());
            row.put("documented", entry.documentation() != null);
            answer.put(entry.name(), row);
        }
        return answer;
    }

    private Object alterConfig(JsonNode request) throws Exception {
        AlterConfigOp.OpType kind = AlterConfigOp.OpType.valueOf(request.get("kind").asText());
        ConfigEntry entry = new ConfigEntry(request.get("name").asText(), request.path("value").asText(null));
        return admin.incrementalAlterConfigs(Map.of(resource(request), List.of(new AlterConfigOp(entry, kind))))
                .all().get();
    }

    private Object listConfigResources(JsonNode request) throws Exception {
        List<String> answer = new ArrayList<>();
        for (ConfigResource one : admin.listConfigResources().all().get()) {
            answer.add(one.type() + ":" + one.name());
        }
        return answer;
    }

    private Object listGroups(JsonNode request) throws Exception {
        ListGroupsOptions options = new ListGroupsOptions();
        Set<GroupState> states = new HashSet<>();
        request.path("states").forEach(state -> states.add(GroupState.parse(state.asText())));
        Set<GroupType> types = new HashSet<>();
        request.path("types").forEach(type -> types.add(GroupType.parse(type.asText())));
        List<Object> answer = new ArrayList<>();
        for (var one : admin.listGroups(options.inGroupStates(states).withTypes(types)).all().get()) {
            Map<String, Object> row = new HashMap<>();
            row.put("group", one.groupId());
            row.put("protocol", one.protocol());
            row.put("type", one.type().map(Object::toString).orElse(null));
            row.put("state", one.groupState().map(Object::toString).orElse(null));
            answer.add(row);
        }
        return answer;
    }

    private Object describeConsumerGroup(JsonNode request) throws Exception {
        ConsumerGroupDescription found =
                admin.describeConsumerGroups(List.of(group(request))).all().get().get(group(request));
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("state", found.groupState().toString());
        answer.put("type", found.type().toString());
        answer.put("assignor", found.partitionAssignor());
        answer.put("coordinator", found.coordinator().id());
        answer.put("members", members(found.members()));
        return answer;
    }

    private Object describeClassicGroup(JsonNode request) throws Exception {
        ClassicGroupDescription found =
                admin.describeClassicGroups(List.of(group(request))).all().get().get(group(request));
        return Map.of(
                "state", found.state().toString(),
                "protocol", found.protocol(),
                "protocol_data", found.protocolData(),
                "members", members(found.members()));
    }

    private static List<Object> members(Collection<MemberDescription> members) {
        List<Object> answer = new ArrayList<>();
        for (MemberDescription member : members) {
            Map<String, Object> row = new HashMap<>();
            row.put("id", member.consumerId());
            row.put("instance", member.groupInstanceId().orElse(null));
            row.put("client", member.clientId());
            row.put("host", member.host());
            row.put("partitions", member.assignment().topicPartitions().size());
            row.put("epoch", member.memberEpoch().orElse(null));
            answer.add(row);
        }
        return answer;
    }

    private Object groupOffsets(JsonNode request) throws Exception {
        Map<String, Object> answer = new TreeMap<>();
        for (var one : admin.listConsumerGroupOffsets(group(request)).partitionsToOffsetAndMetadata().get().entrySet()) {
            answer.put(one.getKey().toString(), one.getValue() == null ? null : one.getValue().offset());
        }
        return answer;
    }

    private Object alterGroupOffset(JsonNode request) throws Exception {
        var offset = new OffsetAndMetadata(request.get("offset").asLong(), "by the test");
        return admin.alterConsumerGroupOffsets(group(request), Map.of(partition(request), offset)).all().get();
    }

    private Object removeMembers(JsonNode request) throws Exception {
        var options = request.hasNonNull("instance")
                ? new RemoveMembersFromConsumerGroupOptions(List.of(new MemberToRemove(request.get("instance").asText())))
                : new RemoveMembersFromConsumerGroupOptions();
        return admin.removeMembersFromConsumerGroup(group(request), options).all().get();
    }

    private Object listOffset(JsonNode request) throws Exception {
        String spec = request.get("spec").asText();
        OffsetSpec wanted = switch (spec) {
            case "earliest" -> OffsetSpec.earliest();
            case "latest" -> OffsetSpec.latest();
            case "max_timestamp" -> OffsetSpec.maxTimestamp();
            case "earliest_local" -> OffsetSpec.earliestLocal();
            case "latest_tiered" -> OffsetSpec.latestTiered();
            default -> OffsetSpec.forTimestamp(Long.parseLong(spec));
        };
        var options = new ListOffsetsOptions(
                request.path("committed").asBoolean() ? IsolationLevel.READ_COMMITTED : IsolationLevel.READ_UNCOMMITTED);
        var found = admin.listOffsets(Map.of(partition(request), wanted), options).all().get().get(partition(request));
        return List.of(found.offset(), found.timestamp());
    }

    private Object deleteRecords(JsonNode request) throws Exception {
        var before = RecordsToDelete.beforeOffset(request.get("offset").asLong());
        var result = admin.deleteRecords(Map.of(partition(request), before));
        return result.lowWatermarks().get(partition(request)).get().lowWatermark();
    }

    private Object describeLogDirs(JsonNode request) throws Exception {
        Map<String, Object> answer = new HashMap<>();
        for (var broker : admin.describeLogDirs(List.of(request.get("broker").asInt())).allDescriptions().get().values()) {
            for (var dir : broker.entrySet()) {
                Map<String, Object> replicas = new TreeMap<>();
                dir.getValue().replicaInfos().forEach((p, info) -> replicas.put(p.toString(), info.size()));
                answer.put(dir.getKey(), Map.of(
                        "replicas", replicas,
                        "total_bytes", dir.getValue().totalBytes().orElse(-1),
                        "usable_bytes", dir.getValue().usableBytes().orElse(-1)));
            }
        }
        return answer;
    }

    private Object describeReplicaLogDir(JsonNode request) throws Exception {
        var replica = new TopicPartitionReplica(topic(request), 0, request.get("broker").asInt());
        var found = admin.describeReplicaLogDirs(List.of(replica)).all().get().get(replica);
        return List.of(found.getCurrentReplicaLogDir(), found.getCurrentReplicaOffsetLag());
    }

    private Object describeCluster(JsonNode request) throws Exception {
        var found = admin.describeCluster();
        return Map.of(
                "cluster_id", found.clusterId().get(),
                "controller", found.controller().get().id(),
                "nodes", found.nodes().get().stream().map(node -> node.id()).toList());
    }

    private Object electLeader(JsonNode request) throws Exception {
        var errors = admin.electLeaders(ElectionType.PREFERRED, Set.of(partition(request))).partitions().get();
        return errors.get(partition(request)).map(error -> error.getClass().getSimpleName()).orElse("elected");
    }

    private Object describeProducers(JsonNode request) throws Exception {
        List<Object> answer = new ArrayList<>();
        var found = admin.describeProducers(List.of(partition(request))).all().get().get(partition(request));
        found.activeProducers().forEach(one -> answer.add(Map.of(
                "id", one.producerId(), "epoch", one.producerEpoch(), "last_sequence", one.lastSequence())));
        return answer;
    }

    private static ConfigResource resource(JsonNode request) {
        return new ConfigResource(
                ConfigResource.Type.valueOf(request.get("resource").asText()), request.path("resource_name").asText(""));
    }

    private static TopicPartition partition(JsonNode request) {
        return new TopicPartition(topic(request), request.path("partition").asInt(0));
    }

    private static String topic(JsonNode request) {
        return request.get("topic").asText();
    }

    private static String group(JsonNode request) {
        return request.get("group").asText();
    }
}
