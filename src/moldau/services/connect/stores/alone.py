"""What a standalone worker knows: configurations and states in memory, offsets in a file
(file_offsets.py)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from threading import Lock

from moldau.services.connect.runtime.interface import TaskId
from moldau.services.connect.stores.configs import Change, ConfigsState, Record
from moldau.services.connect.stores.file_offsets import FileOffsets
from moldau.services.connect.stores.offsets import KnownOffset
from moldau.services.connect.stores.statuses import (
    StatusesState,
    TopicUse,
    WorkerStatus,
    connector_status_record,
    task_status_record,
    topic_record,
    topic_removal,
)

_START_SECONDS = 60.0


class StandaloneStores:
    """See Stores."""

    def __init__(self, offsets: FileOffsets, prepare: Callable[[], None] = lambda: None) -> None:
        """`prepare` makes the topic of offsets, if there is one."""
        self._file, self._prepare = offsets, prepare
        self._lock = Lock()
        self._configs, self._statuses = ConfigsState(), StatusesState()
        self._snapshot = ConfigsState()
        self._on_changes: Callable[[Sequence[Change]], None] | None = None

    def start(self, on_changes: Callable[[Sequence[Change]], None]) -> None:
        """See Stores. SettingError: the file cannot be read, or is something else."""
        self._prepare()
        self._file.start(_START_SECONDS)
        self._on_changes = on_changes

    def close(self) -> None:
        """See Stores."""
        self._file.close()

    def trouble(self) -> str:
        """See Stores."""
        return ""

    def configs(self) -> ConfigsState:
        """See Stores."""
        with self._lock:
            if self._snapshot.offset != self._configs.offset:
                self._snapshot = self._configs.copy()
            return self._snapshot

    def read_configs(self, timeout_seconds: float) -> None:
        """See Stores."""

    def claim(self) -> None:
        """See Stores."""

    def write_configs(self, records: Iterable[Record], *, as_leader: bool) -> None:
        """See Stores."""
        changes: list[Change] = []
        with self._lock:
            for key, value in records:
                changes += self._configs.replay(key, value, max(self._configs.offset, 0))
        if changes and self._on_changes is not None:
            self._on_changes(changes)

    def connector_status(self, name: str) -> WorkerStatus | None:
        """See Stores."""
        return self._statuses.connectors.get(name)

    def task_status(self, task: TaskId) -> WorkerStatus | None:
        """See Stores."""
        return self._statuses.tasks.get(task)

    def statuses_of_tasks(self, connector: str) -> Mapping[int, WorkerStatus]:
        """See Stores."""
        with self._lock:
            return self._statuses.tasks_of(connector)

    def put_connector_status(self, name: str, status: WorkerStatus | None, *, safe: bool = False) -> None:
        """See Stores."""
        self._put_status(connector_status_record(name, status))

    def put_task_status(self, task: TaskId, status: WorkerStatus | None, *, safe: bool = False) -> None:
        """See Stores."""
        self._put_status(task_status_record(task, status))

    def _put_status(self, record: Record) -> None:
        with self._lock:
            self._statuses.replay(*record)

    def topics(self, connector: str) -> Mapping[str, TopicUse]:
        """See Stores."""
        with self._lock:
            return dict(self._statuses.topics.get(connector, {}))

    def put_topic(self, use: TopicUse) -> None:
        """See Stores."""
        self._put_status(topic_record(use))

    def remove_topics(self, connector: str) -> None:
        """See Stores."""
        for topic in self.topics(connector):
            self._put_status(topic_removal(topic, connector))

    def offsets(self, connector: str, topic: str | None = None) -> Sequence[KnownOffset]:
        """See Stores."""
        return self._file.offsets(connector)

    def write_offsets(self, connector: str, wanted: Sequence[KnownOffset], topic: str | None = None) -> None:
        """See Stores."""
        self._file.write(connector, wanted)
