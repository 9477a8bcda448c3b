"""Leader elections on request (KIP-460): of the preferred replicas, or unclean ones."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from moldau.client.admin.layout import Place
from moldau.client.admin.problem import check
from moldau.client.admin.routing import ask_controller
from moldau.client.cluster import Cluster
from moldau.client.errors import error_words
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions

PREFERRED, UNCLEAN = 0, 1
_ANSWER_SECONDS = 5.0
"""How much longer than a broker may work on it its answer is waited for."""


class Election(NamedTuple):
    """What came of it for a partition; `reason` in the broker's words."""

    place: Place
    error_code: int
    reason: str | None

    @property
    def is_needless(self) -> bool:
        """Whether such a leader was there before."""
        return self.error_code == ErrorCode.ELECTION_NOT_NEEDED

    @property
    def words(self) -> str:
        """Why there was none; "" if there was."""
        return (self.reason or error_words(self.error_code)) if self.error_code else ""


def elect_leaders(
    cluster: Cluster, kind: int, places: Iterable[Place] | None, timeout_seconds: float
) -> list[Election]:
    """Elect leaders of these partitions, None: of all, within a time limit."""
    rows: dict[str, list[int]] = {}
    for topic, index in places or ():
        rows.setdefault(topic, []).append(index)
    request = ElectLeadersRequest(
        election_type=kind,
        topic_partitions=None
        if places is None
        else [TopicPartitions(topic=name, partitions=indexes) for name, indexes in rows.items()],
        timeout_ms=int(timeout_seconds * 1000),
    )
    answer = ask_controller(
        cluster,
        request,
        lambda got: [got.error_code],
        "elect leaders",
        timeout_seconds=timeout_seconds + _ANSWER_SECONDS,
    )
    check(answer.error_code)
    return [
        Election((topic.topic, each.partition_id), each.error_code, each.error_message)
        for topic in answer.replica_election_results
        for each in topic.partition_result
    ]
