"""Eligible leader replicas in `moldau topics describe`."""

from typing import Any

from moldau.common.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from moldau.tools.commands.topics.description import PartitionDescription, TopicDescription, kafka_lines
from moldau.tools.commands.topics.eligible import Eligible, load_eligible
from moldau.tools.shared.errors import CommandError

ONE, TWO = ("one", 9092), ("two", 9092)


def page(name: str, index: int, elr: list[int] | None, cursor: Cursor | None) -> Any:
    row = DescribeTopicPartitionsResponsePartition(partition_index=index, eligible_leader_replicas=elr)
    topic = DescribeTopicPartitionsResponseTopic(name=name, partitions=[row])
    return DescribeTopicPartitionsResponse(topics=[topic], next_cursor=cursor)


def test_all_pages_of_the_first_broker_that_answers():
    asked: list[tuple[str, Cursor | None]] = []

    def ask(address: tuple[str, int], request: DescribeTopicPartitionsRequest, _: int, __: float) -> Any:
        if address == ONE:
            raise CommandError("the broker at one:9092 did not answer")
        assert [each.name for each in request.topics] == ["a", "b"]
        asked.append((address[0], request.cursor))
        if request.cursor is None:
            return page("a", 0, [2, 3], Cursor(topic_name="b", partition_index=4))
        return page("b", 4, None, None)

    found = load_eligible([ONE, TWO], ["b", "a"], 1.0, ask)
    assert found == {("a", 0): Eligible([2, 3], []), ("b", 4): Eligible([], [])}
    assert asked == [("two", None), ("two", Cursor(topic_name="b", partition_index=4))]


def test_where_no_broker_can_tell_nothing_is_shown():
    def ask(*_: object) -> Any:
        raise CommandError("it is too old")

    assert load_eligible([ONE, TWO], ["a"], 1.0, ask) == {}


def test_the_line_is_that_of_kafkas_tool():
    partition = PartitionDescription(0, None, [1, 2, 3], [], eligible=[2, 3], last_known_eligible=[1])
    lines = kafka_lines(TopicDescription("t", "id", [partition]), {})
    assert lines.splitlines()[1] == (
        "\tTopic: t\tPartition: 0\tLeader: none\tReplicas: 1,2,3\tIsr: \tElr: 2,3\tLastKnownElr: 1"
    )
