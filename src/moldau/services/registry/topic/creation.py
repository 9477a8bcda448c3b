"""The schemas' topic: one partition, compacted; created if it is not there.

A topic that could lose or reorder schemas is refused: several partitions, or a cleanup policy that deletes.
Fewer replicas than wanted are only warned of, as in Confluent's registry.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

from moldau.client.cluster import Cluster
from moldau.client.errors import ClientError, Retriable, check
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from moldau.common.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from moldau.common.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from moldau.services.registry.problems import Code, RegistryProblem

log = logging.getLogger("moldau.registry.topic.creation")
_TOPIC = 2
_TIMEOUT_MS = 30_000
_MESSAGE_BYTES_MAX = 1_048_588
_UNKNOWN = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


class TopicFacts(NamedTuple):
    """What the registry must know of its topic and cluster."""

    cluster_id: str
    message_bytes_max: int


def prepare_topic(cluster: Cluster, topic: str, replicas: int, *, create: bool = True) -> TopicFacts:
    """Create the topic or check it. RegistryProblem if it will not do or the cluster does not answer."""
    try:
        return cluster.persist(
            f"prepare topic {topic}", lambda: _attempt(cluster, topic, replicas, create=create)
        )
    except ClientError as error:
        raise RegistryProblem(Code.STORE, f"The topic {topic} cannot be used: {error}") from error


def _attempt(cluster: Cluster, topic: str, replicas: int, *, create: bool) -> TopicFacts:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    answer: MetadataResponse = cluster.any_broker().ask(request)
    found = cluster.learn(answer)[0]
    if found.error_code in _UNKNOWN:
        if not create:
            raise RegistryProblem(
                Code.STORE, f"There is no topic {topic}, and a read-only registry creates none"
            )
        _create(cluster, answer.controller_id, topic, min(replicas, len(answer.brokers)))
        raise Retriable(f"the topic {topic} was just created")
    check(found.error_code, f"look up topic {topic}")
    if len(found.partitions) != 1:
        raise RegistryProblem(
            Code.STORE,
            f"The schema topic {topic} should have only 1 partition but has {len(found.partitions)}",
        )
    wanted = min(replicas, len(answer.brokers))
    if len(found.partitions[0].replica_nodes) < wanted:
        log.warning("the schema topic %s has fewer than %d replicas", topic, wanted)
    return TopicFacts(answer.cluster_id or "", _check_configs(cluster, topic))


def _create(cluster: Cluster, controller_id: int, topic: str, replicas: int) -> None:
    try:
        connection = cluster.broker(controller_id)
    except Retriable:
        connection = cluster.any_broker()
    config = CreatableTopicConfig(name="cleanup.policy", value="compact")
    wanted = CreatableTopic(name=topic, num_partitions=1, replication_factor=replicas, configs=[config])
    result = connection.ask(CreateTopicsRequest(topics=[wanted], timeout_ms=_TIMEOUT_MS)).topics[0]
    if result.error_code != ErrorCode.TOPIC_ALREADY_EXISTS:
        check(result.error_code, f"create topic {topic}")
        log.info("created the schema topic %s with %d replicas", topic, replicas)


def _check_configs(cluster: Cluster, topic: str) -> int:
    """RegistryProblem for a policy that deletes; the largest record in bytes."""
    wanted = DescribeConfigsResource(
        resource_type=_TOPIC,
        resource_name=topic,
        configuration_keys=["cleanup.policy", "max.message.bytes"],
    )
    result = cluster.any_broker().ask(DescribeConfigsRequest(resources=[wanted])).results[0]
    if result.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        log.warning("the settings of topic %s may not be read: whether it is compacted is not known", topic)
        return _MESSAGE_BYTES_MAX
    check(result.error_code, f"read the settings of topic {topic}")
    found = {each.name: each.value for each in result.configs}
    policy = found.get("cleanup.policy")
    if policy != "compact":
        raise RegistryProblem(
            Code.STORE,
            f"The retention policy of the schema topic {topic} is incorrect: cleanup.policy must be compact "
            f"and is {policy}, so that Kafka would delete schemas. Change it: "
            f"moldau configs --entity-type topics --entity-name {topic} --alter --add-config "
            "cleanup.policy=compact",
        )
    return int(found.get("max.message.bytes") or _MESSAGE_BYTES_MAX)
