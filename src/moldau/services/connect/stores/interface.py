"""What the herder asks of what is remembered; a group of workers has topics for it, a worker alone memory
and a file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from moldau.services.connect.runtime.interface import TaskId
from moldau.services.connect.stores.configs import Change, ConfigsState, Record
from moldau.services.connect.stores.offsets import KnownOffset
from moldau.services.connect.stores.statuses import TopicUse, WorkerStatus

WRITE_SECONDS = 30.0
"""So long reading and writing may take (Kafka's READ_WRITE_TOTAL_TIMEOUT_MS)."""


class Stores(Protocol):
    """All of them. Safe to call from any thread; what blocks says so."""

    def start(self, on_changes: Callable[[Sequence[Change]], None]) -> None:
        """Read what there is; what changes afterwards is told, on another thread. Blocks."""

    def close(self) -> None:
        """End."""

    def trouble(self) -> str:
        """What has kept the topics from being read for some time; empty: nothing."""

    def configs(self) -> ConfigsState:
        """The configuration as far as it has been read; it does not change any more."""

    def read_configs(self, timeout_seconds: float) -> None:
        """Read it to its end. Blocks. LogFailed, TimeoutError."""

    def claim(self) -> None:
        """This worker leads the group: no other may write for a leader any more. Blocks. NotWritten."""

    def write_configs(self, records: Iterable[Record], *, as_leader: bool) -> None:
        """Write, and read it back. Blocks. NotWritten (`fenced`: another worker leads; `too_large`),
        LogFailed, TimeoutError."""

    def connector_status(self, name: str) -> WorkerStatus | None:
        """The last word about a connector."""

    def task_status(self, task: TaskId) -> WorkerStatus | None:
        """The last word about a task."""

    def statuses_of_tasks(self, connector: str) -> Mapping[int, WorkerStatus]:
        """The last words about a connector's tasks."""

    def put_connector_status(self, name: str, status: WorkerStatus | None, *, safe: bool = False) -> None:
        """None: it is gone. `safe`: unless another worker has said something newer."""

    def put_task_status(self, task: TaskId, status: WorkerStatus | None, *, safe: bool = False) -> None:
        """The same of a task."""

    def topics(self, connector: str) -> Mapping[str, TopicUse]:
        """The topics that a connector has used."""

    def put_topic(self, use: TopicUse) -> None:
        """Note one."""

    def remove_topics(self, connector: str) -> None:
        """Forget them."""

    def offsets(self, connector: str, topic: str | None = None) -> Sequence[KnownOffset]:
        """Where a source connector stands now, read to the end; `topic`: its own topic of offsets, if it has
        one. Blocks. LogFailed, TimeoutError."""

    def write_offsets(self, connector: str, wanted: Sequence[KnownOffset], topic: str | None = None) -> None:
        """Set (or, where the offset is None, forget) offsets. Blocks. NotWritten."""


class Cluster(Protocol):
    """What the herder asks of the Kafka cluster beside; all calls block."""

    def cluster_id(self) -> str:
        """The cluster's id. ClientError."""

    def fence(self, transactional_ids: Sequence[str]) -> None:
        """Make producers with these ids unable to go on. ClientError."""

    def group_offsets(self, group: str) -> Mapping[tuple[str, int], int]:
        """The committed offsets of a group. ClientError."""

    def partitions(self, topics: Sequence[str], pattern: str) -> Sequence[tuple[str, int]]:
        """The partitions of those of these topics that there are, and of those whose names match (Java's
        syntax). ClientError."""

    def alter_group_offsets(self, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
        """Commit them; the group must have no members. ClientError."""

    def delete_group_offsets(self, group: str, partitions: Sequence[tuple[str, int]]) -> None:
        """Forget them. ClientError."""

    def delete_group(self, group: str) -> None:
        """Forget all of a group. ClientError; nothing happens if there is none."""


Json = Mapping[str, Any]
