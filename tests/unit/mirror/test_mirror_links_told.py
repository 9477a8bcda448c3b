"""Links as a client tells them, from the answers of all brokers."""

from __future__ import annotations

from moldau.client.admin.mirrors import _link
from moldau.common.protocol.own.describe_mirrors import LinkData, MirrorPartitionData, MirrorTopicData


def told(*names: str, state: str = "mirroring", partition: int = 0) -> LinkData:
    """What a broker says that leads this partition of these topics."""
    rows = [MirrorPartitionData(partition=partition, end_offset=5)]
    topics = [
        MirrorTopicData(name=name, source=name, state=state, partition_count=2, left=[], partitions=rows)
        for name in names
    ]
    return LinkData(name="link", problem="", settings=[], topics=topics, groups=[])


def test_a_topic_that_the_first_broker_has_not_heard_of_is_told_by_another() -> None:
    first, second = told("b", state="preparing"), told("a", "b", partition=1)
    link = _link(first, [first, second])
    assert [(each.name, each.state) for each in link.topics] == [("a", "mirroring"), ("b", "preparing")]
    assert [[row.index for row in each.partitions] for each in link.topics] == [[1], [0, 1]]
