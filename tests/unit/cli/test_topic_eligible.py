"""Eligible leader replicas in `moldau topics describe`."""

from typing import Any

from fake_layout import fake_layout

from moldau.client.admin.eligible import Eligible, eligible_replicas
from moldau.client.errors import RequestRefused
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from moldau.tools.commands.topics.description import PartitionDescription, TopicDescription, kafka_lines


def page(name: str, index: int, elr: list[int] | None, cursor: Cursor | None) -> Any:
    row = DescribeTopicPartitionsResponsePartition(partition_index=index, eligible_leader_replicas=elr)
    topic = DescribeTopicPartitionsResponseTopic(name=name, partitions=[row])
    return DescribeTopicPartitionsResponse(topics=[topic], next_cursor=cursor)


def test_all_pages_are_asked_for():
    asked: list[Cursor | None] = []

    def ask(_: int, request: DescribeTopicPartitionsRequest) -> Any:
        assert [each.name for each in request.topics] == ["a", "b"]
        asked.append(request.cursor)
        if request.cursor is None:
            return page("a", 0, [2, 3], Cursor(topic_name="b", partition_index=4))
        return page("b", 4, None, None)

    found = eligible_replicas(fake_layout([1], {}, ask).cluster, ["b", "a"])
    assert found == {("a", 0): Eligible((2, 3), ()), ("b", 4): Eligible((), ())}
    assert asked == [None, Cursor(topic_name="b", partition_index=4)]


def test_where_no_broker_can_tell_nothing_is_shown():
    def ask(*_: object) -> Any:
        raise RequestRefused("it is too old", ErrorCode.UNSUPPORTED_VERSION)

    assert eligible_replicas(fake_layout([1], {}, ask).cluster, ["a"]) == {}


def test_the_line_is_that_of_kafkas_tool():
    partition = PartitionDescription(0, None, [1, 2, 3], [], eligible=[2, 3], last_known_eligible=[1])
    lines = kafka_lines(TopicDescription("t", "id", [partition]), {})
    assert lines.splitlines()[1] == (
        "\tTopic: t\tPartition: 0\tLeader: none\tReplicas: 1,2,3\tIsr: \tElr: 2,3\tLastKnownElr: 1"
    )
