"""Consumer groups as real clients live them: join, share, rebalance, leave, resume where the group stood.

One scenario runs with every client and with both of Kafka's group protocols where the client speaks them;
another lets clients of different languages share one group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from client_agents import AgentClient, AgentMember
from client_confluent import ConfluentClient, create_topic
from client_model import Client, Member, Message, Received, eventually

PARTITIONS = 4


@pytest.fixture
def wide_topic(topic: str, bootstrap: str) -> str:
    """A topic of several partitions."""
    create_topic(bootstrap, topic, PARTITIONS)
    return topic


@pytest.fixture
def members() -> Iterator[list[Member]]:
    """Members that are closed even when the test fails."""
    opened: list[Member] = []
    yield opened
    for member in opened:
        member.close()


def write(bootstrap: str, topic: str, first: int, count: int) -> set[bytes]:
    """Write numbered records round over the partitions."""
    values = [str(number).encode() for number in range(first, first + count)]
    messages = [Message(None, value, partition=number % PARTITIONS) for number, value in enumerate(values)]
    ConfluentClient(bootstrap).produce(topic, messages)
    return set(values)


def read_together(members: list[Member], wanted: set[bytes]) -> list[Received]:
    """Take what the members read until all that is wanted came."""
    found: list[Received] = []

    def complete() -> bool:
        for member in members:
            found.extend(member.take())
        return wanted <= {one.value for one in found}

    eventually(complete)
    return found


def owned(members: list[Member]) -> list[int]:
    """How many partitions each member has; empty while two claim the same or one is unclaimed."""
    shares = [member.assignment() for member in members]
    together = set().union(*shares)
    if len(together) != PARTITIONS or sum(map(len, shares)) != PARTITIONS:
        return []
    return sorted(map(len, shares))


def live_as_a_group(
    bootstrap: str,
    topic: str,
    open_member: Callable[[], Member],
    members: list[Member],
    settle_s: float = 20.0,
) -> None:
    """The life of a group: alone, two, alone again, gone, back."""
    first = open_member()
    members.append(first)
    eventually(lambda: owned([first]) == [PARTITIONS], settle_s)
    wanted = write(bootstrap, topic, 0, 40)
    read_together([first], wanted)

    second = open_member()
    members.append(second)
    eventually(lambda: owned([first, second]) == [2, 2], settle_s)
    wanted = write(bootstrap, topic, 40, 40)
    found = read_together([first, second], wanted)
    assert {one.value for one in found} == wanted, "records that the group had committed came again"

    members.remove(second)
    second.close()
    eventually(lambda: owned([first]) == [PARTITIONS], settle_s)
    members.remove(first)
    first.close()

    wanted = write(bootstrap, topic, 80, 20)
    again = open_member()
    members.append(again)
    found = read_together([again], wanted)
    assert {one.value for one in found} == wanted, "a new member did not resume at the committed offsets"


def test_a_group_shares_rebalances_and_resumes(
    client: Client, bootstrap: str, wide_topic: str, group: str, members: list[Member]
) -> None:
    live_as_a_group(bootstrap, wide_topic, lambda: client.open_member(group, [wide_topic]), members)


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
def test_confluent_with_each_assignor(
    strategy: str, bootstrap: str, wide_topic: str, group: str, members: list[Member]
) -> None:
    client = ConfluentClient(bootstrap)
    config = {"partition.assignment.strategy": strategy}
    live_as_a_group(bootstrap, wide_topic, lambda: client.open_member(group, [wide_topic], **config), members)


@pytest.mark.parametrize("assignor", ["RangeAssignor", "StickyAssignor", "CooperativeStickyAssignor"])
def test_java_with_each_assignor(
    assignor: str, java: Client, bootstrap: str, wide_topic: str, group: str, members: list[Member]
) -> None:
    config = {"partition.assignment.strategy": f"org.apache.kafka.clients.consumer.{assignor}"}
    live_as_a_group(bootstrap, wide_topic, lambda: java.open_member(group, [wide_topic], **config), members)


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_java_with_the_new_protocol(
    assignor: str, java: Client, bootstrap: str, wide_topic: str, group: str, members: list[Member]
) -> None:
    config = {"group.protocol": "consumer", "group.remote.assignor": assignor}
    live_as_a_group(
        bootstrap, wide_topic, lambda: java.open_member(group, [wide_topic], **config), members, 40.0
    )


def test_confluent_with_the_new_protocol(
    bootstrap: str, wide_topic: str, group: str, members: list[Member]
) -> None:
    client = ConfluentClient(bootstrap)
    live_as_a_group(
        bootstrap, wide_topic, lambda: client.open_new_protocol_member(group, [wide_topic]), members, 40.0
    )


def test_clients_of_four_kinds_share_one_classic_group(
    client_by_name: Callable[[str], Client],
    bootstrap: str,
    wide_topic: str,
    group: str,
    members: list[Member],
) -> None:
    # All of them offer "range"; librdkafka and Java name it first, so the group agrees on it.
    for name in ("confluent", "kafka-python", "java", "kcat"):
        members.append(client_by_name(name).open_member(group, [wide_topic]))
    eventually(lambda: owned(members) == [1, 1, 1, 1], 40.0)
    wanted = write(bootstrap, wide_topic, 0, 40)
    found = read_together(members, wanted)
    assert len(found) == 40


def test_a_static_member_returns_without_a_rebalance(
    bootstrap: str, wide_topic: str, group: str, members: list[Member]
) -> None:
    client = ConfluentClient(bootstrap)

    def open_named(instance: str) -> Member:
        return client.open_member(group, [wide_topic], **{"group.instance.id": instance})

    members += [open_named("one"), open_named("two")]
    eventually(lambda: owned(members) == [2, 2])
    before = members[1].assignment()
    other = members[0].assignment()
    members.pop().close()  # a static member leaves nothing behind but its place
    members.append(open_named("two"))
    eventually(lambda: members[1].assignment() == before)
    assert members[0].assignment() == other


def test_the_new_protocol_follows_a_pattern(
    java: AgentClient, bootstrap: str, topic: str, group: str, members: list[Member]
) -> None:
    for name in (f"{topic}-a", f"other-{topic}"):
        create_topic(bootstrap, name)
    config = {"group.protocol": "consumer"}
    member = AgentMember(java.agent, group=group, pattern=f"{topic}-.*", config=config)
    members.append(member)
    eventually(lambda: member.assignment() == {(f"{topic}-a", 0)})
