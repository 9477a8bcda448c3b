"""A request of each API, in any version, that names what a `World` (rights_world.py) has:

    topic A           records, committed offsets, in a transaction       group G         committed offsets
    topic B           nothing; it may be deleted                         group CG        a KIP-848 group
    fresh topic       does not exist                                     transaction T   open, with A-0

Requests that change something may be sent again.
"""

from collections.abc import Callable
from typing import Any

from moldau.common.core.ids import uuid_to_text
from moldau.common.protocol.messages import add_offsets_to_txn as add_offsets_to_txn_m
from moldau.common.protocol.messages import add_partitions_to_txn as add_partitions_to_txn_m
from moldau.common.protocol.messages import alter_client_quotas as alter_client_quotas_m
from moldau.common.protocol.messages import alter_configs as alter_configs_m
from moldau.common.protocol.messages import alter_partition_reassignments as alter_partition_reassignments_m
from moldau.common.protocol.messages import alter_replica_log_dirs as alter_replica_log_dirs_m
from moldau.common.protocol.messages import alter_share_group_offsets as alter_share_group_offsets_m
from moldau.common.protocol.messages import alter_user_scram_credentials as alter_user_scram_credentials_m
from moldau.common.protocol.messages import api_versions as api_versions_m
from moldau.common.protocol.messages import consumer_group_describe as consumer_group_describe_m
from moldau.common.protocol.messages import consumer_group_heartbeat as consumer_group_heartbeat_m
from moldau.common.protocol.messages import create_acls as create_acls_m
from moldau.common.protocol.messages import create_delegation_token as create_delegation_token_m
from moldau.common.protocol.messages import create_partitions as create_partitions_m
from moldau.common.protocol.messages import create_topics as create_topics_m
from moldau.common.protocol.messages import delete_acls as delete_acls_m
from moldau.common.protocol.messages import delete_groups as delete_groups_m
from moldau.common.protocol.messages import delete_records as delete_records_m
from moldau.common.protocol.messages import delete_share_group_offsets as delete_share_group_offsets_m
from moldau.common.protocol.messages import delete_share_group_state as delete_share_group_state_m
from moldau.common.protocol.messages import delete_topics as delete_topics_m
from moldau.common.protocol.messages import describe_acls as describe_acls_m
from moldau.common.protocol.messages import describe_client_quotas as describe_client_quotas_m
from moldau.common.protocol.messages import describe_cluster as describe_cluster_m
from moldau.common.protocol.messages import describe_configs as describe_configs_m
from moldau.common.protocol.messages import describe_delegation_token as describe_delegation_token_m
from moldau.common.protocol.messages import describe_groups as describe_groups_m
from moldau.common.protocol.messages import describe_log_dirs as describe_log_dirs_m
from moldau.common.protocol.messages import describe_producers as describe_producers_m
from moldau.common.protocol.messages import describe_quorum as describe_quorum_m
from moldau.common.protocol.messages import describe_share_group_offsets as describe_share_group_offsets_m
from moldau.common.protocol.messages import describe_topic_partitions as describe_topic_partitions_m
from moldau.common.protocol.messages import describe_transactions as describe_transactions_m
from moldau.common.protocol.messages import (
    describe_user_scram_credentials as describe_user_scram_credentials_m,
)
from moldau.common.protocol.messages import elect_leaders as elect_leaders_m
from moldau.common.protocol.messages import end_txn as end_txn_m
from moldau.common.protocol.messages import expire_delegation_token as expire_delegation_token_m
from moldau.common.protocol.messages import fetch as fetch_m
from moldau.common.protocol.messages import find_coordinator as find_coordinator_m
from moldau.common.protocol.messages import heartbeat as heartbeat_m
from moldau.common.protocol.messages import incremental_alter_configs as incremental_alter_configs_m
from moldau.common.protocol.messages import init_producer_id as init_producer_id_m
from moldau.common.protocol.messages import initialize_share_group_state as initialize_share_group_state_m
from moldau.common.protocol.messages import join_group as join_group_m
from moldau.common.protocol.messages import leave_group as leave_group_m
from moldau.common.protocol.messages import list_config_resources as list_config_resources_m
from moldau.common.protocol.messages import list_groups as list_groups_m
from moldau.common.protocol.messages import list_offsets as list_offsets_m
from moldau.common.protocol.messages import list_partition_reassignments as list_partition_reassignments_m
from moldau.common.protocol.messages import list_transactions as list_transactions_m
from moldau.common.protocol.messages import metadata as metadata_m
from moldau.common.protocol.messages import offset_commit as offset_commit_m
from moldau.common.protocol.messages import offset_delete as offset_delete_m
from moldau.common.protocol.messages import offset_fetch as offset_fetch_m
from moldau.common.protocol.messages import offset_for_leader_epoch as offset_for_leader_epoch_m
from moldau.common.protocol.messages import produce as produce_m
from moldau.common.protocol.messages import read_share_group_state as read_share_group_state_m
from moldau.common.protocol.messages import read_share_group_state_summary as read_share_group_state_summary_m
from moldau.common.protocol.messages import renew_delegation_token as renew_delegation_token_m
from moldau.common.protocol.messages import sasl_authenticate as sasl_authenticate_m
from moldau.common.protocol.messages import sasl_handshake as sasl_handshake_m
from moldau.common.protocol.messages import share_acknowledge as share_acknowledge_m
from moldau.common.protocol.messages import share_fetch as share_fetch_m
from moldau.common.protocol.messages import share_group_describe as share_group_describe_m
from moldau.common.protocol.messages import share_group_heartbeat as share_group_heartbeat_m
from moldau.common.protocol.messages import sync_group as sync_group_m
from moldau.common.protocol.messages import txn_offset_commit as txn_offset_commit_m
from moldau.common.protocol.messages import unregister_broker as unregister_broker_m
from moldau.common.protocol.messages import update_features as update_features_m
from moldau.common.protocol.messages import write_share_group_state as write_share_group_state_m
from moldau.common.protocol.messages import write_txn_markers as write_txn_markers_m
from moldau.common.protocol.messages.offset_fetch import OffsetFetchRequest
from moldau.common.protocol.own import alter_mirrors as alter_mirrors_m
from moldau.common.protocol.own import describe_mirrors as describe_mirrors_m

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32  # resource types of settings
ZERO = bytes(16)
A, B, G, CG, SG, T = "topic-a", "topic-b", "group-g", "group-cg", "group-sg", "transaction-t"
Make = Callable[[Any, int], Any]
REQUESTS: dict[str, Make] = {}


def makes(function: Make) -> Make:
    """Register the function as the one that makes the requests of the API of its name."""
    name = "".join(word.capitalize() for word in function.__name__.split("_"))
    REQUESTS[name] = function
    return function


# Data


@makes
def produce(world: Any, version: int, *, transactional: bool = True) -> Any:
    m = produce_m
    records = world.batch(world.producer_id, world.producer_epoch) if transactional else world.batch()
    topic = m.TopicProduceData(partition_data=[m.PartitionProduceData(index=0, records=records)])
    topic.name, topic.topic_id = ("", world.id_of(A)) if version >= 13 else (A, ZERO)
    name = T if transactional else None
    return m.ProduceRequest(transactional_id=name, acks=-1, timeout_ms=1000, topic_data=[topic])


@makes
def fetch(world: Any, version: int, *, replica_id: int = -1, max_wait_ms: int = 0) -> Any:
    m = fetch_m
    topic = m.FetchTopic(partitions=[m.FetchPartition(partition=0, partition_max_bytes=1 << 20)])
    topic.topic, topic.topic_id = ("", world.id_of(A)) if version >= 13 else (A, ZERO)
    request = m.FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, topics=[topic])
    if version >= 15:
        request.replica_state = m.ReplicaState(replica_id=replica_id)
    else:
        request.replica_id = replica_id
    return request


@makes
def list_offsets(world: Any, version: int) -> Any:
    m = list_offsets_m
    row = m.ListOffsetsPartition(partition_index=0, timestamp=-1)
    return m.ListOffsetsRequest(replica_id=-1, topics=[m.ListOffsetsTopic(name=A, partitions=[row])])


@makes
def offset_for_leader_epoch(world: Any, version: int) -> Any:
    m = offset_for_leader_epoch_m
    topic = m.OffsetForLeaderTopic(topic=A, partitions=[m.OffsetForLeaderPartition(partition=0)])
    return m.OffsetForLeaderEpochRequest(topics=[topic])


@makes
def delete_records(world: Any, version: int) -> Any:
    m = delete_records_m
    row = m.DeleteRecordsPartition(partition_index=0, offset=1)
    return m.DeleteRecordsRequest(topics=[m.DeleteRecordsTopic(name=A, partitions=[row])], timeout_ms=1000)


@makes
def describe_producers(world: Any, version: int) -> Any:
    m = describe_producers_m
    return m.DescribeProducersRequest(topics=[m.TopicRequest(name=A, partition_indexes=[0])])


# Metadata


@makes
def metadata(world: Any, version: int) -> Any:
    m = metadata_m
    topics = [m.MetadataRequestTopic(name=name) for name in (A, world.fresh_topic())]
    request = m.MetadataRequest(topics=topics)
    request.include_topic_authorized_operations = version >= 8
    request.include_cluster_authorized_operations = 8 <= version <= 10
    return request


@makes
def describe_topic_partitions(world: Any, version: int) -> Any:
    m = describe_topic_partitions_m
    return m.DescribeTopicPartitionsRequest(topics=[m.TopicRequest(name=A)])


@makes
def describe_cluster(world: Any, version: int) -> Any:
    return describe_cluster_m.DescribeClusterRequest(include_cluster_authorized_operations=True)


@makes
def api_versions(world: Any, version: int) -> Any:
    m = api_versions_m
    return m.ApiVersionsRequest(client_software_name="test", client_software_version="1")


@makes
def sasl_handshake(world: Any, version: int) -> Any:
    return sasl_handshake_m.SaslHandshakeRequest(mechanism="PLAIN")


@makes
def sasl_authenticate(world: Any, version: int) -> Any:
    return sasl_authenticate_m.SaslAuthenticateRequest(auth_bytes=b"x")


# Groups


@makes
def find_coordinator(world: Any, version: int, *, kind: int = 0) -> Any:
    key = (G, T, f"{SG}:{uuid_to_text(bytes(16))}:0")[kind]
    request = find_coordinator_m.FindCoordinatorRequest(key_type=kind)
    if version >= 4:
        request.coordinator_keys = [key]
    else:
        request.key = key
    return request


@makes
def join_group(world: Any, version: int) -> Any:
    m = join_group_m
    return m.JoinGroupRequest(
        group_id=world.fresh_group(),
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000 if version else -1,
        protocol_type="consumer",
        protocols=[m.JoinGroupRequestProtocol(name="range", metadata=b"")],
    )


@makes
def sync_group(world: Any, version: int) -> Any:
    request = sync_group_m.SyncGroupRequest(group_id=world.fresh_group(), generation_id=1, member_id="m")
    if version >= 5:
        request.protocol_type, request.protocol_name = "consumer", "range"
    return request


@makes
def heartbeat(world: Any, version: int) -> Any:
    return heartbeat_m.HeartbeatRequest(group_id=world.fresh_group(), generation_id=1, member_id="m")


@makes
def leave_group(world: Any, version: int) -> Any:
    m = leave_group_m
    if version < 3:
        return m.LeaveGroupRequest(group_id=world.fresh_group(), member_id="m")
    return m.LeaveGroupRequest(group_id=world.fresh_group(), members=[m.MemberIdentity(member_id="m")])


@makes
def consumer_group_heartbeat(world: Any, version: int) -> Any:
    return consumer_group_heartbeat_m.ConsumerGroupHeartbeatRequest(
        group_id=CG,
        member_id=world.member_id if version else "",
        member_epoch=0,
        rebalance_timeout_ms=10_000,
        subscribed_topic_names=[A],
        topic_partitions=[],
    )


@makes
def offset_commit(world: Any, version: int) -> Any:
    m = offset_commit_m
    row = m.OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    topic = m.OffsetCommitRequestTopic(partitions=[row])
    topic.name, topic.topic_id = ("", world.id_of(A)) if version >= 10 else (A, ZERO)
    return m.OffsetCommitRequest(group_id=G, topics=[topic])


@makes
def offset_fetch(world: Any, version: int) -> Any:
    m = offset_fetch_m
    if version < 8:
        topics = [m.OffsetFetchRequestTopic(name=A, partition_indexes=[0])]
        return OffsetFetchRequest(group_id=G, topics=topics)
    topic = m.OffsetFetchRequestTopics(partition_indexes=[0])
    topic.name, topic.topic_id = ("", world.id_of(A)) if version >= 10 else (A, ZERO)
    return OffsetFetchRequest(groups=[m.OffsetFetchRequestGroup(group_id=G, topics=[topic])])


@makes
def offset_delete(world: Any, version: int) -> Any:
    m = offset_delete_m
    row = m.OffsetDeleteRequestPartition(partition_index=0)
    return m.OffsetDeleteRequest(group_id=G, topics=[m.OffsetDeleteRequestTopic(name=A, partitions=[row])])


@makes
def describe_groups(world: Any, version: int) -> Any:
    return describe_groups_m.DescribeGroupsRequest(groups=[G], include_authorized_operations=version >= 3)


@makes
def consumer_group_describe(world: Any, version: int) -> Any:
    return consumer_group_describe_m.ConsumerGroupDescribeRequest(
        group_ids=[CG], include_authorized_operations=True
    )


@makes
def list_groups(world: Any, version: int) -> Any:
    return list_groups_m.ListGroupsRequest()


@makes
def delete_groups(world: Any, version: int) -> Any:
    return delete_groups_m.DeleteGroupsRequest(groups_names=[G])


# Transactions


@makes
def init_producer_id(world: Any, version: int, *, name: str | None = T) -> Any:
    return init_producer_id_m.InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000)


@makes
def add_partitions_to_txn(world: Any, version: int) -> Any:
    m = add_partitions_to_txn_m
    topics = [m.AddPartitionsToTxnTopic(name=A, partitions=[0])]
    request = m.AddPartitionsToTxnRequest()
    if version < 4:
        request.v3_and_below_transactional_id = T
        request.v3_and_below_producer_id = world.producer_id
        request.v3_and_below_producer_epoch = world.producer_epoch
        request.v3_and_below_topics = topics
    else:
        request.transactions = [
            m.AddPartitionsToTxnTransaction(
                transactional_id=T,
                producer_id=world.producer_id,
                producer_epoch=world.producer_epoch,
                topics=topics,
            )
        ]
    return request


@makes
def add_offsets_to_txn(world: Any, version: int) -> Any:
    return add_offsets_to_txn_m.AddOffsetsToTxnRequest(
        transactional_id=T,
        producer_id=world.producer_id,
        producer_epoch=world.producer_epoch,
        group_id=G,
    )


@makes
def end_txn(world: Any, version: int) -> Any:
    return end_txn_m.EndTxnRequest(
        transactional_id=T,
        producer_id=world.producer_id,
        producer_epoch=world.producer_epoch,
        committed=True,
    )


@makes
def txn_offset_commit(world: Any, version: int) -> Any:
    m = txn_offset_commit_m
    row = m.TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    return m.TxnOffsetCommitRequest(
        transactional_id=T,
        group_id=G,
        producer_id=world.producer_id,
        producer_epoch=world.producer_epoch,
        topics=[m.TxnOffsetCommitRequestTopic(name=A, partitions=[row])],
    )


@makes
def write_txn_markers(world: Any, version: int) -> Any:
    m = write_txn_markers_m
    marker = m.WritableTxnMarker(
        producer_id=world.producer_id,
        producer_epoch=world.producer_epoch,
        topics=[m.WritableTxnMarkerTopic(name=A, partition_indexes=[0])],
    )
    return m.WriteTxnMarkersRequest(markers=[marker])


@makes
def describe_transactions(world: Any, version: int) -> Any:
    return describe_transactions_m.DescribeTransactionsRequest(transactional_ids=[T])


@makes
def list_transactions(world: Any, version: int) -> Any:
    return list_transactions_m.ListTransactionsRequest()


# Topics and settings


@makes
def create_topics(world: Any, version: int) -> Any:
    m = create_topics_m
    topic = m.CreatableTopic(name=world.fresh_topic(), num_partitions=1, replication_factor=1)
    return m.CreateTopicsRequest(topics=[topic])


@makes
def create_partitions(world: Any, version: int) -> Any:
    m = create_partitions_m
    topic = m.CreatePartitionsTopic(name=B, count=9, assignments=None)
    return m.CreatePartitionsRequest(topics=[topic], timeout_ms=1000)


@makes
def delete_topics(world: Any, version: int, *, by_id: bool = True) -> Any:
    m = delete_topics_m
    if version < 6:
        return m.DeleteTopicsRequest(topic_names=[B], timeout_ms=1000)
    state = m.DeleteTopicState(topic_id=world.id_of(B)) if by_id else m.DeleteTopicState(name=B)
    return m.DeleteTopicsRequest(topics=[state], timeout_ms=1000)


CONFIGS = ((TOPIC, A), (BROKER, "1"), (LOGGER, "1"), (METRICS, "m"), (GROUP, G))
SETTING = {
    TOPIC: ("retention.ms", "1000"),
    BROKER: ("log.retention.ms", "1000"),
    LOGGER: ("moldau.test", "DEBUG"),
    METRICS: ("interval.ms", "1000"),
    GROUP: ("consumer.session.timeout.ms", "46000"),
}


@makes
def describe_configs(world: Any, version: int) -> Any:
    m = describe_configs_m
    return m.DescribeConfigsRequest(
        resources=[
            m.DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
            for kind, name in CONFIGS
        ]
    )


@makes
def alter_configs(world: Any, version: int) -> Any:
    m = alter_configs_m
    return m.AlterConfigsRequest(
        resources=[
            m.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[m.AlterableConfig(name=SETTING[kind][0], value=SETTING[kind][1])],
            )
            for kind, name in CONFIGS
        ]
    )


@makes
def incremental_alter_configs(world: Any, version: int) -> Any:
    m = incremental_alter_configs_m
    return m.IncrementalAlterConfigsRequest(
        resources=[
            m.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[m.AlterableConfig(name=SETTING[kind][0], value=SETTING[kind][1])],
            )
            for kind, name in CONFIGS
        ]
    )


@makes
def list_config_resources(world: Any, version: int) -> Any:
    return list_config_resources_m.ListConfigResourcesRequest()


# The cluster


@makes
def alter_replica_log_dirs(world: Any, version: int) -> Any:
    m = alter_replica_log_dirs_m
    topic = m.AlterReplicaLogDirTopic(name=A, partitions=[0])
    directory = m.AlterReplicaLogDir(path=world.node.broker.settings.data_directories[0], topics=[topic])
    return m.AlterReplicaLogDirsRequest(dirs=[directory])


@makes
def describe_log_dirs(world: Any, version: int) -> Any:
    return describe_log_dirs_m.DescribeLogDirsRequest(topics=None)


@makes
def elect_leaders(world: Any, version: int) -> Any:
    m = elect_leaders_m
    rows = [m.TopicPartitions(topic=A, partitions=[0])]
    return m.ElectLeadersRequest(topic_partitions=rows)


@makes
def alter_partition_reassignments(world: Any, version: int) -> Any:
    m = alter_partition_reassignments_m
    row = m.ReassignablePartition(partition_index=0, replicas=[1])
    return m.AlterPartitionReassignmentsRequest(topics=[m.ReassignableTopic(name=A, partitions=[row])])


@makes
def list_partition_reassignments(world: Any, version: int) -> Any:
    return list_partition_reassignments_m.ListPartitionReassignmentsRequest(topics=None)


@makes
def unregister_broker(world: Any, version: int) -> Any:
    return unregister_broker_m.UnregisterBrokerRequest(broker_id=7)


@makes
def alter_mirrors(world: Any, version: int) -> Any:
    return alter_mirrors_m.AlterMirrorsRequest(action="pause", link="no-link", topics=None)


@makes
def describe_mirrors(world: Any, version: int) -> Any:
    return describe_mirrors_m.DescribeMirrorsRequest(links=None)


@makes
def update_features(world: Any, version: int) -> Any:
    m = update_features_m
    update = m.FeatureUpdateKey(feature="group.version", max_version_level=1)
    return m.UpdateFeaturesRequest(feature_updates=[update])


@makes
def describe_quorum(world: Any, version: int) -> Any:
    m = describe_quorum_m
    row = m.TopicRequest(topic_name="__cluster_metadata", partitions=[m.PartitionRequest(partition_index=0)])
    return m.DescribeQuorumRequest(topics=[row])


# Security


@makes
def create_acls(world: Any, version: int) -> Any:
    m = create_acls_m
    creation = m.AclCreation(
        resource_type=2,
        resource_name=A,
        resource_pattern_type=3,
        principal="User:alice",
        host="*",
        operation=3,
        permission_type=3,
    )
    return m.CreateAclsRequest(creations=[creation])


def _every_acl(kind: Any) -> Any:
    return kind(
        resource_type_filter=1,
        resource_name_filter=None,
        pattern_type_filter=1,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    )


@makes
def delete_acls(world: Any, version: int) -> Any:
    return delete_acls_m.DeleteAclsRequest(filters=[_every_acl(delete_acls_m.DeleteAclsFilter)])


@makes
def describe_acls(world: Any, version: int) -> Any:
    return _every_acl(describe_acls_m.DescribeAclsRequest)


@makes
def alter_user_scram_credentials(world: Any, version: int) -> Any:
    m = alter_user_scram_credentials_m
    upsertion = m.ScramCredentialUpsertion(
        name="bob", mechanism=1, iterations=4096, salt=b"salt" * 4, salted_password=b"p" * 32
    )
    return m.AlterUserScramCredentialsRequest(upsertions=[upsertion])


@makes
def describe_user_scram_credentials(world: Any, version: int) -> Any:
    return describe_user_scram_credentials_m.DescribeUserScramCredentialsRequest(
        users=[describe_user_scram_credentials_m.UserName(name="bob")]
    )


@makes
def alter_client_quotas(world: Any, version: int) -> Any:
    m = alter_client_quotas_m
    entry = m.EntryData(
        entity=[m.EntityData(entity_type="user", entity_name="bob")],
        ops=[m.OpData(key="producer_byte_rate", value=1024.0)],
    )
    return m.AlterClientQuotasRequest(entries=[entry])


@makes
def describe_client_quotas(world: Any, version: int) -> Any:
    return describe_client_quotas_m.DescribeClientQuotasRequest()


@makes
def create_delegation_token(world: Any, version: int) -> Any:
    m = create_delegation_token_m
    request = m.CreateDelegationTokenRequest(max_lifetime_ms=-1)
    if version >= 3:
        request.owner_principal_type, request.owner_principal_name = "User", "bob"
    return request


@makes
def describe_delegation_token(world: Any, version: int) -> Any:
    return describe_delegation_token_m.DescribeDelegationTokenRequest(owners=None)


@makes
def renew_delegation_token(world: Any, version: int) -> Any:
    return renew_delegation_token_m.RenewDelegationTokenRequest(hmac=b"none", renew_period_ms=-1)


@makes
def expire_delegation_token(world: Any, version: int) -> Any:
    return expire_delegation_token_m.ExpireDelegationTokenRequest(hmac=b"none", expiry_time_period_ms=-1)


# Share groups

SHARE_MEMBER = "m" * 21 + "A"


@makes
def share_group_heartbeat(world: Any, version: int) -> Any:
    m = share_group_heartbeat_m
    return m.ShareGroupHeartbeatRequest(
        group_id=SG, member_id=SHARE_MEMBER, member_epoch=0, subscribed_topic_names=[A]
    )


@makes
def share_group_describe(world: Any, version: int) -> Any:
    return share_group_describe_m.ShareGroupDescribeRequest(
        group_ids=[SG], include_authorized_operations=True
    )


@makes
def share_fetch(world: Any, version: int) -> Any:
    m = share_fetch_m
    topic = m.FetchTopic(topic_id=world.id_of(A), partitions=[m.FetchPartition(partition_index=0)])
    return m.ShareFetchRequest(
        group_id=SG, member_id=SHARE_MEMBER, max_records=1, batch_size=1, topics=[topic]
    )


@makes
def share_acknowledge(world: Any, version: int) -> Any:
    m = share_acknowledge_m
    world.open_share_session()
    row = m.AcknowledgePartition(
        partition_index=0,
        acknowledgement_batches=[
            m.AcknowledgementBatch(first_offset=0, last_offset=0, acknowledge_types=[1])
        ],
    )
    topic = m.AcknowledgeTopic(topic_id=world.id_of(A), partitions=[row])
    return m.ShareAcknowledgeRequest(
        group_id=SG, member_id=SHARE_MEMBER, share_session_epoch=1, topics=[topic]
    )


@makes
def describe_share_group_offsets(world: Any, version: int) -> Any:
    m = describe_share_group_offsets_m
    topic = m.RequestTopic(topic_name=A, partitions=[0])
    return m.DescribeShareGroupOffsetsRequest(groups=[m.RequestGroup(group_id=SG, topics=[topic])])


@makes
def alter_share_group_offsets(world: Any, version: int) -> Any:
    m = alter_share_group_offsets_m
    topic = m.RequestTopic(topic_name=A, partitions=[m.RequestPartition(partition_index=0)])
    return m.AlterShareGroupOffsetsRequest(group_id=SG, topics=[topic])


@makes
def delete_share_group_offsets(world: Any, version: int) -> Any:
    m = delete_share_group_offsets_m
    return m.DeleteShareGroupOffsetsRequest(group_id=SG, topics=[m.RequestTopic(topic_name=A)])


@makes
def initialize_share_group_state(world: Any, version: int) -> Any:
    m = initialize_share_group_state_m
    topic = m.InitializeStateData(topic_id=world.id_of(B), partitions=[m.PartitionData()])
    return m.InitializeShareGroupStateRequest(group_id=SG, topics=[topic])


@makes
def read_share_group_state(world: Any, version: int) -> Any:
    m = read_share_group_state_m
    topic = m.ReadStateData(topic_id=world.id_of(B), partitions=[m.PartitionData()])
    return m.ReadShareGroupStateRequest(group_id=SG, topics=[topic])


@makes
def write_share_group_state(world: Any, version: int) -> Any:
    m = write_share_group_state_m
    topic = m.WriteStateData(topic_id=world.id_of(B), partitions=[m.PartitionData()])
    return m.WriteShareGroupStateRequest(group_id=SG, topics=[topic])


@makes
def delete_share_group_state(world: Any, version: int) -> Any:
    m = delete_share_group_state_m
    topic = m.DeleteStateData(topic_id=world.id_of(B), partitions=[m.PartitionData()])
    return m.DeleteShareGroupStateRequest(group_id=SG, topics=[topic])


@makes
def read_share_group_state_summary(world: Any, version: int) -> Any:
    m = read_share_group_state_summary_m
    topic = m.ReadStateSummaryData(topic_id=world.id_of(B), partitions=[m.PartitionData()])
    return m.ReadShareGroupStateSummaryRequest(group_id=SG, topics=[topic])
