"""What a standalone worker knows: configurations and states in memory, offsets in a file (offset_file.py)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from threading import Lock

from moldau.common.settings.rows import SettingError
from moldau.services.connect.runtime.interface import TaskId
from moldau.services.connect.stores.configs import Change, ConfigsState, Record
from moldau.services.connect.stores.kafka_log import NotWritten
from moldau.services.connect.stores.offset_file import load, save
from moldau.services.connect.stores.offsets import BytesRecord, KnownOffset, OffsetsState
from moldau.services.connect.stores.statuses import (
    StatusesState,
    TopicUse,
    WorkerStatus,
    connector_status_record,
    task_status_record,
    topic_record,
    topic_removal,
)

_SETTING = "offset.storage.file.filename"


class StandaloneStores:
    """See Stores; nothing blocks for long."""

    def __init__(self, offset_file: Path) -> None:
        self._file = offset_file
        self._lock = Lock()
        self._configs, self._statuses, self._offsets = ConfigsState(), StatusesState(), OffsetsState()
        self._snapshot = ConfigsState()
        self._entries: dict[bytes, bytes | None] = {}
        self._on_changes: Callable[[Sequence[Change]], None] | None = None

    def start(self, on_changes: Callable[[Sequence[Change]], None]) -> None:
        """See Stores. SettingError: the file cannot be read, or is something else."""
        try:
            self._entries = load(self._file)
        except (OSError, ValueError) as problem:
            raise SettingError(_SETTING, f"{_SETTING}={self._file} cannot be read: {problem}") from None
        for key, value in self._entries.items():
            self._offsets.replay(key, value)
        self._on_changes = on_changes

    def close(self) -> None:
        """See Stores."""

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
        with self._lock:
            return self._offsets.offsets(connector)

    def write_offsets(self, connector: str, wanted: Sequence[KnownOffset], topic: str | None = None) -> None:
        """See Stores. NotWritten: the file cannot be written."""
        with self._lock:
            self._write(self._offsets.records(connector, wanted))

    def write_offset_records(self, records: Sequence[BytesRecord]) -> None:
        """What a source has reached. NotWritten."""
        with self._lock:
            self._write(records)

    def _write(self, records: Sequence[BytesRecord]) -> None:
        entries = dict(self._entries)
        for key, value in records:
            entries.pop(key, None)
            if value is not None:
                entries[key] = value
        try:
            save(self._file, entries)
        except OSError as problem:
            raise NotWritten(
                f"the file of offsets {self._file} was not written: {problem.strerror}"
            ) from None
        self._entries = entries
        for key, value in records:
            self._offsets.replay(key, value)
