"""The consumer group protocol of KIP-848 as librdkafka speaks it: the broker assigns.

Sharing among three, static members, patterns, new partitions, what the admin sees, and a broker that is
killed under its members. The scenario that all clients share is in test_groups.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from client_confluent import ConfluentClient, create_topic
from client_model import Member, Message, Place, eventually
from confluent_kafka import Consumer, ConsumerGroupState, ConsumerGroupType
from confluent_kafka.admin import AclOperation, AdminClient, NewPartitions

from bench.brokers import BrokerProcess

PARTITIONS = 6
SETTLE_S = 30.0


@pytest.fixture
def members() -> Iterator[list[Member]]:
    """Members that are closed even when the test fails."""
    opened: list[Member] = []
    yield opened
    for member in opened:
        member.close()


@pytest.fixture
def wide_topic(topic: str, bootstrap: str) -> str:
    """A topic of six partitions."""
    create_topic(bootstrap, topic, PARTITIONS)
    return topic


def shares(members: list[Member]) -> list[int]:
    """How many partitions each member has, in order of size; empty while any is with two members."""
    assignments = [member.assignment() for member in members]
    together: set[Place] = set().union(*assignments)
    return sorted(map(len, assignments)) if len(together) == sum(map(len, assignments)) else []


def test_three_members_share_and_keep_what_they_have(
    bootstrap: str, wide_topic: str, group: str, members: list[Member]
) -> None:
    client = ConfluentClient(bootstrap)
    for wanted in ([6], [3, 3], [2, 2, 2]):
        before = [member.assignment() for member in members]
        members.append(client.open_new_protocol_member(group, [wide_topic]))
        eventually(lambda wanted=wanted: shares(members) == wanted, SETTLE_S)
        assert all(member.assignment() <= had for member, had in zip(members, before, strict=False))
    before = [member.assignment() for member in members]
    members.pop().close()
    eventually(lambda: shares(members) == [3, 3], SETTLE_S)
    assert all(member.assignment() >= had for member, had in zip(members, before, strict=False))


def test_a_group_may_ask_for_the_range_assignor(
    bootstrap: str, topic: str, group: str, members: list[Member]
) -> None:
    client = ConfluentClient(bootstrap)
    names = [f"{topic}-orders", f"{topic}-payments"]
    for name in names:
        create_topic(bootstrap, name, 4)
    config = {"group.remote.assignor": "range"}
    members += [client.open_new_protocol_member(group, names, **config) for _ in range(2)]
    eventually(lambda: shares(members) == [4, 4], SETTLE_S)
    for member in members:
        numbers = [{number for name, number in member.assignment() if name == wanted} for wanted in names]
        assert numbers[0] == numbers[1], "co-partitioned topics belong together"


def test_a_static_member_comes_back_to_its_partitions(
    bootstrap: str, wide_topic: str, group: str, members: list[Member]
) -> None:
    client = ConfluentClient(bootstrap)

    def open_named(instance: str) -> Member:
        return client.open_new_protocol_member(group, [wide_topic], **{"group.instance.id": instance})

    members += [open_named("one"), open_named("two")]
    eventually(lambda: shares(members) == [3, 3], SETTLE_S)
    first, second = (member.assignment() for member in members)
    members.pop(0).close()
    members.append(open_named("one"))
    eventually(lambda: members[1].assignment() == first, SETTLE_S)
    assert members[0].assignment() == second


def test_an_instance_id_cannot_be_taken_while_its_owner_lives(
    bootstrap: str, wide_topic: str, group: str, members: list[Member]
) -> None:
    config = {"group.instance.id": "one"}
    members.append(ConfluentClient(bootstrap).open_new_protocol_member(group, [wide_topic], **config))
    eventually(lambda: shares(members) == [6], SETTLE_S)
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "group.protocol": "consumer",
        "log_level": 0,
    }
    intruder = Consumer(settings | config)
    intruder.subscribe([wide_topic])
    errors: list[str] = []

    def refused() -> bool:
        message = intruder.poll(0.2)
        if message is not None and message.error() is not None:
            errors.append(message.error().str())
        return any("instance ID is still used" in error for error in errors)

    try:
        eventually(refused, SETTLE_S)
    finally:
        intruder.close()
    assert shares(members) == [6]


def test_a_pattern_follows_the_topics(bootstrap: str, topic: str, group: str, members: list[Member]) -> None:
    for name in (f"{topic}-a", f"other-{topic}"):
        create_topic(bootstrap, name)
    members.append(ConfluentClient(bootstrap).open_new_protocol_member(group, [f"^{topic}-.*"]))
    eventually(lambda: members[0].assignment() == {(f"{topic}-a", 0)}, SETTLE_S)
    create_topic(bootstrap, f"{topic}-b")
    eventually(lambda: members[0].assignment() == {(f"{topic}-a", 0), (f"{topic}-b", 0)}, SETTLE_S)


def test_new_partitions_are_handed_out(
    bootstrap: str, wide_topic: str, group: str, members: list[Member]
) -> None:
    client = ConfluentClient(bootstrap)
    members += [client.open_new_protocol_member(group, [wide_topic]) for _ in range(2)]
    eventually(lambda: shares(members) == [3, 3], SETTLE_S)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_partitions([NewPartitions(wide_topic, 8)]).values():
        future.result()
    eventually(lambda: shares(members) == [4, 4], SETTLE_S)


def test_what_the_admin_sees_of_a_group(
    bootstrap: str, wide_topic: str, group: str, members: list[Member]
) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    members.append(ConfluentClient(bootstrap).open_new_protocol_member(group, [wide_topic]))
    eventually(lambda: shares(members) == [6], SETTLE_S)
    described = admin.describe_consumer_groups([group], include_authorized_operations=True)[group].result()
    assert AclOperation.DELETE in described.authorized_operations
    assert described.type is ConsumerGroupType.CONSUMER
    assert described.state is ConsumerGroupState.STABLE
    assert described.partition_assignor == "uniform"
    (member,) = described.members
    assert {(part.topic, part.partition) for part in member.assignment.topic_partitions} == {
        (wide_topic, number) for number in range(PARTITIONS)
    }
    listed = admin.list_consumer_groups(types={ConsumerGroupType.CONSUMER}).result()
    assert group in {one.group_id for one in listed.valid}
    with pytest.raises(Exception, match=r"NON_EMPTY_GROUP|not empty"):
        admin.delete_consumer_groups([group])[group].result()
    members.pop().close()
    admin.delete_consumer_groups([group])[group].result()
    listed = admin.list_consumer_groups().result()
    assert group not in {one.group_id for one in listed.valid}


def test_a_group_survives_the_death_of_its_broker(
    private_broker: Callable[..., BrokerProcess], topic: str, group: str, members: list[Member]
) -> None:
    broker = private_broker(moldau_http_listener="127.0.0.1:0")
    client = ConfluentClient(broker.address)
    create_topic(broker.address, topic, PARTITIONS)
    members += [client.open_new_protocol_member(group, [topic]) for _ in range(2)]
    eventually(lambda: shares(members) == [3, 3], SETTLE_S)
    before = [member.assignment() for member in members]
    client.produce(topic, [Message(None, b"1", partition=number) for number in range(PARTITIONS)])
    eventually(lambda: sum(len(member.take()) for member in members) > 0, SETTLE_S)
    broker.kill()
    broker.start()
    client.produce(topic, [Message(None, b"2", partition=number) for number in range(PARTITIONS)])
    found: list[bytes | None] = []

    def complete() -> bool:
        for member in members:
            found.extend(record.value for record in member.take())
        return found.count(b"2") == PARTITIONS

    eventually(complete, SETTLE_S)
    assert [member.assignment() for member in members] == before
