"""What a worker asks of the Kafka cluster beside its topics: ids, groups of sinks, fencing. All calls
block."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from moldau.client.admin.groups import committed_offsets, find_group
from moldau.client.admin.problem import KafkaProblem, check
from moldau.client.admin.routing import ask_coordinator
from moldau.client.admin.topics import describe_cluster
from moldau.client.cluster import TRANSACTION, Cluster
from moldau.client.errors import Retriable
from moldau.client.errors import check as check_answer
from moldau.common.core.java_patterns import compile_java
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.messages.delete_groups import DeleteGroupsRequest
from moldau.common.protocol.messages.init_producer_id import InitProducerIdRequest
from moldau.common.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)

ResultT = TypeVar("ResultT")
_FENCING_TIMEOUT_MS = 60_000
_PATIENCE_SECONDS = 60.0
"""For which a question is repeated: somebody waits, for 90 s at most (asking.py)."""


class KafkaSide:
    """A client for each call: they are rare."""

    def __init__(self, connect: Callable[[], Cluster]) -> None:
        self._connect = connect

    def _call(self, work: Callable[[Cluster], ResultT]) -> ResultT:
        with self._connect() as cluster:
            limit = min(cluster.options.api_timeout_seconds, _PATIENCE_SECONDS)
            cluster.options = replace(cluster.options, api_timeout_seconds=limit)
            return work(cluster)

    def cluster_id(self) -> str:
        """The cluster's id. ClientError."""
        return self._call(lambda cluster: describe_cluster(cluster).cluster_id)

    def fence(self, transactional_ids: Sequence[str]) -> None:
        """Producers with these ids cannot go on, and what they have not committed is aborted. ClientError."""

        def fence_all(cluster: Cluster) -> None:
            for each in transactional_ids:
                cluster.persist(f"fence the producer {each}", lambda each=each: _fence(cluster, each))  # type: ignore[misc]

        self._call(fence_all)

    def group_offsets(self, group: str) -> Mapping[tuple[str, int], int]:
        """The committed offsets of a group. ClientError."""
        found = self._call(lambda cluster: committed_offsets(cluster, group))
        return {(place[0], place[1]): each.offset for place, each in found.items()}

    def partitions(self, topics: Sequence[str], pattern: str) -> Sequence[tuple[str, int]]:
        """The partitions of those of these topics that there are, and of those whose names match (Java's
        syntax). ClientError."""
        if not topics and not pattern:
            return []

        def ask(cluster: Cluster) -> list[tuple[str, int]]:
            known = cluster.topics()
            chosen = {each for each in topics if each in known}
            if pattern:
                matching = compile_java(pattern)
                chosen |= {each for each in known if matching.fullmatch(each)}
            return [(name, index) for name in sorted(chosen) for index in range(known[name])]

        return self._call(ask)

    def alter_group_offsets(self, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
        """Commit them; the group must have no members. ClientError."""
        self._call(lambda cluster: cluster.commit_offsets(group, dict(offsets)))

    def delete_group_offsets(self, group: str, partitions: Sequence[tuple[str, int]]) -> None:
        """Forget them. ClientError."""
        topics: dict[str, list[OffsetDeleteRequestPartition]] = {}
        for topic, partition in partitions:
            topics.setdefault(topic, []).append(OffsetDeleteRequestPartition(partition_index=partition))
        request = OffsetDeleteRequest(
            group_id=group,
            topics=[OffsetDeleteRequestTopic(name=name, partitions=rows) for name, rows in topics.items()],
        )

        def ask(cluster: Cluster) -> None:
            answer = ask_coordinator(cluster, group, request, lambda got: [got.error_code])
            if answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
                return
            check(answer.error_code)
            for topic in answer.topics:
                for each in topic.partitions:
                    check(each.error_code)

        self._call(ask)

    def delete_group(self, group: str) -> None:
        """Forget all of a group; nothing happens if there is none. ClientError."""

        def ask(cluster: Cluster) -> None:
            if find_group(cluster, group) is None:
                return
            request = DeleteGroupsRequest(groups_names=[group])
            answer = ask_coordinator(
                cluster, group, request, lambda got: [each.error_code for each in got.results]
            )
            code = answer.results[0].error_code
            if code != ErrorCode.GROUP_ID_NOT_FOUND:
                check(code)

        self._call(ask)


def _fence(cluster: Cluster, transactional_id: str) -> None:
    connection = cluster.coordinator(transactional_id, TRANSACTION)
    answer = connection.ask(
        InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=_FENCING_TIMEOUT_MS)
    )
    code = answer.error_code
    if code in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE):
        cluster.forget_coordinator(transactional_id, TRANSACTION)
        raise Retriable("its coordinator moves")
    if code in (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
        raise Retriable("its last transaction is being ended")
    try:
        check_answer(code, f"fence the producer {transactional_id}")
    except Retriable:
        raise
    except Exception as problem:
        raise KafkaProblem(code, str(problem)) from None
