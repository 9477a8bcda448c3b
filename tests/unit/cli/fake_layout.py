"""A cluster of our own client whose connections answer from a function: real routing and retry."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from moldau.client.admin.layout import Layout, layout
from moldau.client.cluster import Cluster
from moldau.client.errors import Retriable
from moldau.client.options import ClientOptions
from moldau.common.protocol.declare import Message
from moldau.common.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

Ask = Callable[[int, Any], Any]
"""The answer of a broker (by id) to a request. Retriable: it breaks the connection."""


class FakeTime:
    """Time that passes by sleeping alone."""

    def __init__(self) -> None:
        self.now_seconds = 0.0
        self.naps = 0

    def __call__(self) -> float:
        return self.now_seconds

    def sleep(self, seconds: float) -> None:
        self.now_seconds += seconds
        self.naps += 1


class FakeConnection:
    """A connection to one broker; everything is spoken in its last version."""

    is_open, unanswered = True, 0

    def __init__(self, port: int, ask: Ask, partitions: Mapping[tuple[str, int], tuple[int, ...]]) -> None:
        self.host, self.port = "host", port
        self._ask, self._partitions = ask, partitions

    def version_of(self, request: type[Message], at_most: int = 2**15) -> int:
        return min(request.VERSIONS[1], at_most)

    def ask(self, request: Message, *, at_most: int = 2**15, timeout_seconds: float | None = None) -> Any:
        version = self.version_of(type(request), at_most)
        type(request).decode(request.encode(version), version)
        if isinstance(request, MetadataRequest):
            asked = request.topics
            return _metadata(self._partitions, None if asked is None else {each.name for each in asked})
        return self._ask(self.port, request)

    def close(self) -> None:
        pass


def fake_layout(
    brokers: Sequence[int],
    partitions: Mapping[tuple[str, int], tuple[int, ...]],
    ask: Ask,
    time: FakeTime | None = None,
) -> Layout:
    """A cluster of these brokers. Of each partition the replicas, the leader first (-1: there is none)."""
    passing = time or FakeTime()
    told = {(BROKERS, each): () for each in brokers} | dict(partitions)
    cluster = Cluster(
        f"host:{brokers[0]}",
        ClientOptions(api_timeout_seconds=10.0),
        connect=lambda _, port, __: FakeConnection(port, ask, told),  # type: ignore[arg-type, return-value]
        clock=passing,
        sleep=passing.sleep,
    )
    return layout(cluster)


BROKERS = ""
"""Stands among the partitions for the brokers themselves: no topic has this name."""


def _metadata(
    told: Mapping[tuple[str, int], tuple[int, ...]], asked: Collection[str | None] | None
) -> MetadataResponse:
    brokers = [index for name, index in told if name == BROKERS]
    topics: dict[str, list[MetadataResponsePartition]] = {}
    for (name, index), replicas in told.items():
        if name != BROKERS and (asked is None or name in asked):
            nodes = [each for each in replicas if each >= 0]
            topics.setdefault(name, []).append(
                MetadataResponsePartition(
                    partition_index=index, leader_id=replicas[0], replica_nodes=nodes, isr_nodes=nodes
                )
            )
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=each, host="host", port=each) for each in brokers],
        controller_id=brokers[0],
        cluster_id="c",
        topics=[MetadataResponseTopic(name=name, partitions=rows) for name, rows in topics.items()],
    )


__all__ = ["Ask", "FakeTime", "Retriable", "fake_layout"]
