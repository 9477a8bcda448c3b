"""The official Java Admin: every call of it that a single broker answers."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Iterator

import pytest
from client_agents import AgentClient, AgentError, AgentMember
from client_confluent import ConfluentClient
from client_model import Message, eventually


@pytest.fixture
def made(java: AgentClient, topic: str) -> str:
    """A topic of two partitions with ten records in the first."""
    java.call("create_topic", topic=topic, partitions=2, configs={"retention.ms": "86400000"})
    java.produce(topic, [Message(b"k", str(i).encode(), partition=0) for i in range(10)])
    return topic


@pytest.fixture
def broker_id(java: AgentClient) -> int:
    (node,) = java.call("describe_cluster")["nodes"]
    return int(node)


@pytest.fixture
def member(java: AgentClient, made: str, group: str) -> Iterator[AgentMember]:
    """A classic member that has read the ten records and committed."""
    one = AgentMember(java.agent, group=group, topics=[made], config={"client.id": "admin-test"})
    eventually(lambda: len(one.take()) == 10)
    yield one
    one.close()


def test_create_and_describe_a_topic(java: AgentClient, topic: str, broker_id: int) -> None:
    created = java.call("create_topic", topic=topic, partitions=3, configs={"cleanup.policy": "compact"})
    assert (created["partitions"], created["replication_factor"]) == (3, 1)
    assert created["configs"] >= 20
    described = java.call("describe_topic", topic=topic)
    assert described["id"] == created["id"]
    assert described["internal"] is False
    expected = {"leader": broker_id, "replicas": [broker_id], "isr": [broker_id]}
    assert described["partitions"] == [{"partition": i, **expected} for i in range(3)]
    assert topic in java.call("list_topics")


def test_a_topic_without_a_count_gets_the_brokers_default(java: AgentClient, topic: str) -> None:
    assert java.call("create_topic", topic=topic)["partitions"] == 1


@pytest.mark.parametrize(
    ("name", "configs", "error"),
    [
        ("not/a/name", {}, "InvalidTopicException"),
        ("", {}, "InvalidTopicException"),
        ("x" * 250, {}, "InvalidTopicException"),
        ("fine", {"no.such.setting": "1"}, "InvalidConfigurationException"),
        ("fine", {"retention.ms": "soon"}, "InvalidConfigurationException"),
    ],
)
def test_a_bad_topic_is_refused(java: AgentClient, name: str, configs: dict[str, str], error: str) -> None:
    with pytest.raises(AgentError, match=error):
        java.call("create_topic", topic=name, configs=configs)


def test_topics_that_exist_or_do_not(java: AgentClient, made: str) -> None:
    with pytest.raises(AgentError, match="TopicExistsException"):
        java.call("create_topic", topic=made)
    java.call("delete_topic", topic=made)
    assert made not in java.call("list_topics")
    with pytest.raises(AgentError, match="UnknownTopicOrPartitionException"):
        java.call("delete_topic", topic=made)
    with pytest.raises(AgentError, match="UnknownTopicOrPartitionException"):
        java.call("describe_topic", topic=made)


def test_a_topic_made_again_is_a_new_one(java: AgentClient, made: str) -> None:
    old = java.call("describe_topic", topic=made)["id"]
    java.call("delete_topic", topic=made)
    assert java.call("create_topic", topic=made)["id"] != old
    assert java.call("list_offset", topic=made, spec="latest")[0] == 0


def test_partitions_are_added_but_never_removed(java: AgentClient, made: str) -> None:
    java.call("create_partitions", topic=made, count=5)
    assert len(eventually(lambda: java.call("describe_topic", topic=made))["partitions"]) == 5
    with pytest.raises(AgentError, match="InvalidPartitionsException"):
        java.call("create_partitions", topic=made, count=2)
    java.produce(made, [Message(None, b"new", partition=4)])


def test_topic_configs_with_sources_and_synonyms(java: AgentClient, made: str) -> None:
    configs = java.call("describe_configs", resource="TOPIC", resource_name=made)
    retention = configs["retention.ms"]
    assert (retention["value"], retention["source"], retention["type"]) == (
        "86400000",
        "DYNAMIC_TOPIC_CONFIG",
        "LONG",
    )
    assert retention["synonyms"][0] == "retention.ms@DYNAMIC_TOPIC_CONFIG"
    assert configs["segment.bytes"]["value"] == "1073741824"
    assert configs["cleanup.policy"]["value"] == "delete"
    assert configs["cleanup.policy"]["source"] == "DEFAULT_CONFIG"
    assert all(one["documented"] for one in configs.values())


def test_topic_configs_are_altered(java: AgentClient, made: str) -> None:
    def alter(kind: str, name: str, value: str | None) -> None:
        java.call("alter_config", resource="TOPIC", resource_name=made, kind=kind, name=name, value=value)

    def value(name: str) -> str:
        return str(java.call("describe_configs", resource="TOPIC", resource_name=made)[name]["value"])

    alter("SET", "retention.ms", "3600000")
    assert value("retention.ms") == "3600000"
    alter("DELETE", "retention.ms", None)
    assert value("retention.ms") == "604800000"
    alter("APPEND", "cleanup.policy", "compact")
    assert value("cleanup.policy") == "delete,compact"
    alter("SUBTRACT", "cleanup.policy", "delete")
    assert value("cleanup.policy") == "compact"
    with pytest.raises(AgentError, match=r"InvalidConfigurationException|InvalidRequestException"):
        alter("SET", "retention.ms", "tomorrow")
    with pytest.raises(AgentError, match="UnknownTopicOrPartitionException"):
        java.call(
            "alter_config",
            resource="TOPIC",
            resource_name=f"{made}-not",
            kind="SET",
            name="retention.ms",
            value="1",
        )


def test_broker_configs(java: AgentClient, broker_id: int) -> None:
    def read() -> dict[str, dict[str, str]]:
        return java.call("describe_configs", resource="BROKER", resource_name=str(broker_id))  # type: ignore[no-any-return]

    configs = read()
    assert configs["log.segment.bytes"]["value"] == "1073741824"
    assert configs["group.initial.rebalance.delay.ms"]["source"] == "STATIC_BROKER_CONFIG"
    assert configs["log.dirs"]["read_only"]
    for scope, source in ((str(broker_id), "DYNAMIC_BROKER_CONFIG"), ("", "DYNAMIC_DEFAULT_BROKER_CONFIG")):
        change = {"resource": "BROKER", "resource_name": scope, "name": "log.cleaner.backoff.ms"}
        java.call("alter_config", kind="SET", value="14000", **change)
        found = eventually(lambda: (one := read()["log.cleaner.backoff.ms"])["value"] == "14000" and one)
        assert found["source"] == source
        java.call("alter_config", kind="DELETE", **change)
        eventually(lambda: read()["log.cleaner.backoff.ms"]["value"] == "15000")
    with pytest.raises(AgentError):
        java.call(
            "alter_config",
            resource="BROKER",
            resource_name=str(broker_id),
            kind="SET",
            name="log.dirs",
            value="/x",
        )


def test_group_configs_and_config_resources(java: AgentClient, made: str, group: str) -> None:
    change = {"resource": "GROUP", "resource_name": group, "name": "consumer.session.timeout.ms"}
    java.call("alter_config", kind="SET", value="46000", **change)
    configs = java.call("describe_configs", resource="GROUP", resource_name=group)
    assert configs["consumer.session.timeout.ms"]["value"] == "46000"
    resources = java.call("list_config_resources")
    assert {f"TOPIC:{made}", f"GROUP:{group}"} <= set(resources)


def test_a_classic_group_is_described(java: AgentClient, group: str, member: AgentMember) -> None:
    eventually(lambda: java.call("describe_consumer_group", group=group)["state"] == "Stable")
    found = java.call("describe_consumer_group", group=group)
    assert (found["type"], found["assignor"]) == ("Classic", "range")
    (one,) = found["members"]
    assert (one["client"], one["partitions"], one["instance"]) == ("admin-test", 2, None)
    assert "127.0.0.1" in one["host"]
    classic = java.call("describe_classic_group", group=group)
    assert (classic["protocol"], classic["protocol_data"], classic["state"]) == (
        "consumer",
        "range",
        "Stable",
    )


def test_groups_are_listed_by_state_and_type(java: AgentClient, group: str, member: AgentMember) -> None:
    def names(**filters: list[str]) -> set[str]:
        return {one["group"] for one in java.call("list_groups", **filters)}

    eventually(lambda: group in names(states=["Stable"]))
    assert group in names()
    assert group in names(types=["Classic"])
    assert group not in names(types=["Consumer"])
    assert group not in names(states=["Empty", "Dead"])
    (row,) = [one for one in java.call("list_groups") if one["group"] == group]
    assert (row["protocol"], row["type"], row["state"]) == ("consumer", "Classic", "Stable")


def test_a_new_protocol_group_is_described_and_listed(java: AgentClient, made: str, group: str) -> None:
    config = {"group.protocol": "consumer", "client.id": "new-protocol"}
    member = AgentMember(java.agent, group=group, topics=[made], config=config)
    eventually(lambda: len(member.take()) == 10)
    eventually(lambda: java.call("describe_consumer_group", group=group)["state"] == "Stable")
    found = java.call("describe_consumer_group", group=group)
    assert (found["type"], found["assignor"]) == ("Consumer", "uniform")
    (one,) = found["members"]
    assert (one["client"], one["partitions"]) == ("new-protocol", 2)
    assert one["epoch"] >= 1
    assert group in {one["group"] for one in java.call("list_groups", types=["Consumer"])}
    member.close()
    eventually(lambda: java.call("describe_consumer_group", group=group)["state"] == "Empty")
    assert java.call("group_offsets", group=group)[f"{made}-0"] == 10
    java.call("delete_group", group=group)
    assert group not in {one["group"] for one in java.call("list_groups")}


def test_members_are_removed_by_an_admin(java: AgentClient, made: str, group: str) -> None:
    config = {"group.instance.id": "fixed", "session.timeout.ms": "30000"}
    AgentMember(java.agent, group=group, topics=[made], config=config)
    eventually(lambda: java.call("describe_consumer_group", group=group)["state"] == "Stable")
    java.call("remove_members", group=group, instance="fixed")
    with pytest.raises(AgentError, match=r"(UnknownMemberId|MemberIdRequired|GroupAuthorization|Unknown)"):
        java.call("remove_members", group=group, instance="nobody")


def test_group_offsets_are_read_altered_and_deleted(
    java: AgentClient, made: str, group: str, member: AgentMember
) -> None:
    assert java.call("group_offsets", group=group)[f"{made}-0"] == 10
    with pytest.raises(AgentError, match=r"UnknownMemberIdException|RebalanceInProgress|GroupNotEmpty"):
        java.call("alter_group_offset", group=group, topic=made, offset=3)
    with pytest.raises(AgentError, match="GroupSubscribedToTopicException"):
        java.call("delete_group_offset", group=group, topic=made)
    with pytest.raises(AgentError, match="GroupNotEmptyException"):
        java.call("delete_group", group=group)


def test_offsets_of_an_empty_group(java: AgentClient, made: str, group: str) -> None:
    java.call("alter_group_offset", group=group, topic=made, offset=7)
    assert java.call("group_offsets", group=group) == {f"{made}-0": 7}
    assert java.call("describe_consumer_group", group=group)["state"] == "Empty"
    java.call("delete_group_offset", group=group, topic=made)
    assert java.call("group_offsets", group=group) == {}


def test_groups_are_deleted(java: AgentClient, made: str, group: str) -> None:
    java.call("alter_group_offset", group=group, topic=made, offset=7)
    java.call("delete_group", group=group)
    with pytest.raises(AgentError, match="GroupIdNotFoundException"):
        java.call("describe_consumer_group", group=group)
    with pytest.raises(AgentError, match="GroupIdNotFoundException"):
        java.call("delete_group", group=group)


def test_records_are_deleted_up_to_an_offset(java: AgentClient, made: str, bootstrap: str) -> None:
    assert java.call("delete_records", topic=made, offset=4) == 4
    assert java.call("list_offset", topic=made, spec="earliest")[0] == 4
    found = ConfluentClient(bootstrap).read({made: 6})[made]
    assert [one.offset for one in found] == [4, 5, 6, 7, 8, 9]
    assert java.call("delete_records", topic=made, offset=-1) == 10
    with pytest.raises(AgentError, match="OffsetOutOfRangeException"):
        java.call("delete_records", topic=made, offset=99)


def test_log_dirs(java: AgentClient, made: str, broker_id: int) -> None:
    (found,) = java.call("describe_log_dirs", broker=broker_id).values()
    assert found["replicas"][f"{made}-0"] > 0
    assert found["replicas"][f"{made}-1"] == 0
    assert 0 < found["usable_bytes"] < found["total_bytes"]
    folder, lag = java.call("describe_replica_log_dir", topic=made, broker=broker_id)
    assert folder
    assert lag == 0


def test_cluster(java: AgentClient, broker_id: int) -> None:
    found = java.call("describe_cluster")
    assert found["controller"] == broker_id
    assert len(uuid.UUID(bytes=_base64(found["cluster_id"])).bytes) == 16
    assert "group.version" in java.call("describe_features")
    assert java.call("list_reassignments") == 0


def test_a_leader_that_is_the_preferred_one_needs_no_election(java: AgentClient, made: str) -> None:
    assert java.call("elect_leader", topic=made) == "ElectionNotNeededException"
    assert java.call("elect_leader", topic=f"{made}-not") == "UnknownTopicOrPartitionException"


def test_active_producers(java: AgentClient, made: str) -> None:
    # The Java producer is idempotent by default: ten records in one run, sequences 0 to 9.
    (found,) = java.call("describe_producers", topic=made)
    assert found["id"] >= 0
    assert (found["epoch"], found["last_sequence"]) == (0, 9)
    assert java.call("describe_producers", topic=made, partition=1) == []


def _base64(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "==")
