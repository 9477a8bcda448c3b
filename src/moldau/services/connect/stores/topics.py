"""The topics that a worker keeps its state in: made compacted if they are missing, else checked.

One that deletes by time would lose connectors and offsets and is refused, as Kafka refuses it; of
connect-configs, so is one of several partitions, whose records have no order.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from moldau.client.admin.configs import describe_configs
from moldau.client.admin.problem import KafkaProblem
from moldau.client.admin.topics import create_topic, describe_topics
from moldau.client.cluster import Cluster
from moldau.client.errors import ClientError
from moldau.common.protocol.errors import ErrorCode

log = logging.getLogger("moldau.connect.stores.topics")
_TOPIC = 2


class TopicRefused(Exception):
    """A topic will not do; the message says what to do."""


def prepare_topic(
    cluster: Cluster,
    setting: str,
    topic: str,
    partitions: int,
    replication_factor: int,
    configs: Mapping[str, str],
    *,
    one_partition: bool = False,
) -> None:
    """Create the topic, or check it. TopicRefused, ClientError."""
    try:
        create_topic(
            cluster,
            topic,
            partitions=partitions,
            replication_factor=replication_factor,
            configs=dict(configs),
        )
        log.info("created the topic %s", topic)
        return
    except KafkaProblem as problem:
        if problem.error_code in (
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ):
            log.info("the topic %s may not be created by this worker, and is taken as it is", topic)
        elif problem.error_code != ErrorCode.TOPIC_ALREADY_EXISTS:
            raise TopicRefused(_not_created(setting, topic, replication_factor, problem)) from None
    _check(cluster, setting, topic, one_partition=one_partition)


def _not_created(setting: str, topic: str, replicas: int, problem: KafkaProblem) -> str:
    hint = ""
    if problem.error_code == ErrorCode.INVALID_REPLICATION_FACTOR:
        factor = setting.replace(".topic", ".replication.factor")
        hint = f": set {factor} to the number of brokers, or -1 (it is {replicas})"
    return f"the topic {topic} ({setting}) cannot be created: {problem}{hint}"


def _check(cluster: Cluster, setting: str, topic: str, *, one_partition: bool) -> None:
    found = next((each for each in describe_topics(cluster, [topic]) if each.name == topic), None)
    if found is None:
        raise TopicRefused(f"there is no topic {topic} ({setting}), and this worker may not create it")
    if one_partition and len(found.partitions) != 1:
        raise TopicRefused(
            f"Topic '{topic}' supplied via the '{setting}' property is required to have a single partition "
            f"in "
            f"order to guarantee consistency of connector configurations, but found {len(found.partitions)} "
            "partitions."
        )
    try:
        configs = {each.name: each.value for each in describe_configs(cluster, _TOPIC, [topic])[topic]}
    except (ClientError, KeyError) as problem:
        log.warning(
            "the settings of topic %s cannot be read, whether it is compacted is not known: %s",
            topic,
            problem,
        )
        return
    policy = configs.get("cleanup.policy") or ""
    if policy and {each.strip() for each in policy.split(",")} != {"compact"}:
        raise TopicRefused(
            f"Topic '{topic}' supplied via the '{setting}' property is required to have "
            f"'cleanup.policy=compact' "
            "to guarantee consistency and durability of the state of connectors, but found the topic "
            "currently "
            f"has 'cleanup.policy={policy}'. Change it: moldau configs --entity-type topics --entity-name "
            f"{topic} "
            "--alter --add-config cleanup.policy=compact"
        )
