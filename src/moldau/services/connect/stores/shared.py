"""The three topics of a group of workers.

What only the leader may write (connectors, tasks, keys) is written with a transactional producer where
sources are exactly once: the next leader takes that producer's id, and a leader that does not know yet that
it is none any more cannot write (KIP-618). Everything else is written by any worker.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from threading import Lock
from typing import Any

from confluent_kafka import KafkaException, Producer

from moldau.client.cluster import Cluster
from moldau.services.connect.runtime.interface import TaskId
from moldau.services.connect.settings import WorkerConfiguration
from moldau.services.connect.stores.configs import Change, ConfigsState, Record
from moldau.services.connect.stores.interface import WRITE_SECONDS
from moldau.services.connect.stores.kafka_log import KafkaLog, NotWritten, deliver
from moldau.services.connect.stores.offsets import KnownOffset, OffsetsState
from moldau.services.connect.stores.statuses import (
    StatusesState,
    TopicUse,
    WorkerStatus,
    connector_status_record,
    task_status_record,
    topic_record,
    topic_removal,
)
from moldau.services.connect.stores.topics import prepare_topic

log = logging.getLogger("moldau.connect.stores")
_START_SECONDS = 60.0


class SharedStores:
    """connect-configs, connect-offsets and connect-status of a group."""

    def __init__(self, configuration: WorkerConfiguration, connect: Callable[[], Cluster]) -> None:
        """`connect` makes a client of the cluster."""
        self._configuration, self._connect = configuration, connect
        settings = configuration.settings
        self._group_id = settings.group_id
        self._transactional = settings.exactly_once_source_support.lower() != "disabled"
        self._lock = Lock()
        self._configs, self._snapshot = ConfigsState(), ConfigsState()
        self._statuses, self._offsets = StatusesState(), OffsetsState()
        self._own_offsets: dict[str, tuple[KafkaLog, OffsetsState]] = {}
        self._own_lock = Lock()
        self._on_changes: Callable[[Sequence[Change]], None] | None = None
        self._leading: Producer | None = None
        self._is_fenced = False
        """Somebody else has claimed the configuration since this worker did: it writes no more before it
        claims it again, which it may do only when its group has told it that it leads."""
        self._config_log = self._log(settings.config_storage_topic, self._take_config, wait_ms=100)
        self._status_log = self._log(settings.status_storage_topic, self._take_status)
        self._offset_log = self._log(settings.offset_storage_topic, self._taking_offset(self._offsets))

    def _log(
        self, topic: str, replay: Callable[[bytes | None, bytes | None, int, int], None], wait_ms: int = 500
    ) -> KafkaLog:
        return KafkaLog(
            topic,
            self._configuration.client,
            self._connect,
            replay,
            client_id=f"{self._group_id}-{topic}",
            wait_ms=wait_ms,
        )

    def start(self, on_changes: Callable[[Sequence[Change]], None]) -> None:
        """See Stores. TopicRefused, ClientError, LogFailed, TimeoutError."""
        settings = self._configuration.settings
        with self._connect() as cluster:
            for store, topic, count, factor in (
                ("config", settings.config_storage_topic, 1, settings.config_storage_replication_factor),
                (
                    "offset",
                    settings.offset_storage_topic,
                    settings.offset_storage_partitions,
                    settings.offset_storage_replication_factor,
                ),
                (
                    "status",
                    settings.status_storage_topic,
                    settings.status_storage_partitions,
                    settings.status_storage_replication_factor,
                ),
            ):
                configs = self._configuration.topic_settings(store)
                name = f"{store}.storage.topic"
                prepare_topic(cluster, name, topic, count, factor, configs, one_partition=store == "config")
        for each in (self._status_log, self._offset_log, self._config_log):
            each.start(_START_SECONDS)
        self._on_changes = on_changes

    def close(self) -> None:
        """See Stores."""
        self._leading = None
        own = [each for each, _ in self._own_offsets.values()]
        for log_ in (self._config_log, self._status_log, self._offset_log, *own):
            log_.close()

    def trouble(self) -> str:
        """See Stores."""
        found = (each.lasting_trouble for each in (self._config_log, self._status_log, self._offset_log))
        return next((each for each in found if each), "")

    # connect-configs

    def _take_config(self, key: bytes | None, value: bytes | None, partition: int, offset: int) -> None:
        with self._lock:
            changes = self._configs.replay((key or b"").decode("utf-8", "replace"), value, offset)
        if changes and self._on_changes is not None:
            self._on_changes(changes)

    def configs(self) -> ConfigsState:
        """See Stores."""
        with self._lock:
            if self._snapshot.offset != self._configs.offset:
                self._snapshot = self._configs.copy()
            return self._snapshot

    def read_configs(self, timeout_seconds: float) -> None:
        """See Stores."""
        self._config_log.read_to_end(timeout_seconds)

    def claim(self) -> None:
        """See Stores."""
        if not self._transactional:
            return
        producer = self._config_log.producer(
            transactional_id=f"connect-cluster-{self._group_id}", transaction_timeout_ms=10_000
        )
        try:
            producer.init_transactions(WRITE_SECONDS)
        except KafkaException as problem:
            raise NotWritten(f"this worker cannot lead the group: {problem.args[0].str()}") from None
        self._leading, self._is_fenced = producer, False

    def write_configs(self, records: Iterable[Record], *, as_leader: bool) -> None:
        """See Stores."""
        if as_leader and self._transactional:
            last = self._write_as_leader(records)
        else:
            last = self._config_log.send(records, WRITE_SECONDS)
        if last >= 0:
            self._config_log.read_past(0, last, WRITE_SECONDS)
        else:
            self.read_configs(WRITE_SECONDS)

    def _write_as_leader(self, records: Iterable[Record]) -> int:
        if self._is_fenced:
            raise NotWritten("another worker leads the group, or has led it since", fenced=True)
        if self._leading is None:
            self.claim()
        producer = self._leading
        assert producer is not None
        topic = self._config_log.topic
        try:
            producer.begin_transaction()
            last = deliver(producer, topic, records, WRITE_SECONDS)
            producer.commit_transaction(WRITE_SECONDS)
            return last
        except (NotWritten, KafkaException) as problem:
            error: Any = problem.args[0]
            fenced = problem.fenced if isinstance(problem, NotWritten) else bool(error.fatal())
            try:
                producer.abort_transaction(5)
            except KafkaException as unended:
                fenced = True  # or as good as: who may claim the id now, the group must say
                log.warning(
                    "the transaction on %s was not aborted: the next leader does it: %s",
                    topic,
                    unended.args[0].str(),
                )
            if fenced:
                self._leading, self._is_fenced = None, True
            if isinstance(problem, NotWritten):
                raise NotWritten(str(problem), fenced=fenced, too_large=problem.too_large) from None
            raise NotWritten(f"{topic} was not written: {error.str()}", fenced=fenced) from None

    # connect-status

    def _take_status(self, key: bytes | None, value: bytes | None, partition: int, offset: int) -> None:
        with self._lock:
            self._statuses.replay((key or b"").decode("utf-8", "replace"), value)

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
        if not safe or status is None or self._statuses.may_write(self.connector_status(name), status):
            self._status_log.send_soon(*connector_status_record(name, status))

    def put_task_status(self, task: TaskId, status: WorkerStatus | None, *, safe: bool = False) -> None:
        """See Stores."""
        if not safe or status is None or self._statuses.may_write(self.task_status(task), status):
            self._status_log.send_soon(*task_status_record(task, status))

    def topics(self, connector: str) -> Mapping[str, TopicUse]:
        """See Stores."""
        with self._lock:
            return dict(self._statuses.topics.get(connector, {}))

    def put_topic(self, use: TopicUse) -> None:
        """See Stores."""
        self._status_log.send_soon(*topic_record(use))

    def remove_topics(self, connector: str) -> None:
        """See Stores."""
        for topic in self.topics(connector):
            self._status_log.send_soon(*topic_removal(topic, connector))

    # connect-offsets

    def _taking_offset(self, state: OffsetsState) -> Callable[[bytes | None, bytes | None, int, int], None]:
        def take(key: bytes | None, value: bytes | None, partition: int, offset: int) -> None:
            with self._lock:
                state.replay(key, value)

        return take

    def _own(self, topic: str | None) -> tuple[KafkaLog, OffsetsState] | None:
        """A connector's own topic of offsets; read from its beginning when it is first asked for."""
        settings = self._configuration.settings
        if topic is None or topic == settings.offset_storage_topic:
            return None
        with self._own_lock:
            found = self._own_offsets.get(topic)
            if found is None:
                with self._connect() as cluster:
                    prepare_topic(
                        cluster,
                        "offsets.storage.topic",
                        topic,
                        settings.offset_storage_partitions,
                        settings.offset_storage_replication_factor,
                        self._configuration.topic_settings("offset"),
                    )
                state = OffsetsState()
                found = self._log(topic, self._taking_offset(state)), state
                try:
                    found[0].start(_START_SECONDS)
                except BaseException:  # its thread and clients would stay, and the next question makes others
                    found[0].close()
                    raise
                self._own_offsets[topic] = found
            return found

    def offsets(self, connector: str, topic: str | None = None) -> Sequence[KnownOffset]:
        """See Stores. What a connector's own topic does not say, the worker's may (KIP-618)."""
        self._offset_log.read_to_end(WRITE_SECONDS)
        with self._lock:
            known = self._offsets.offsets(connector)
        own = self._own(topic)
        if own is None:
            return known
        own[0].read_to_end(WRITE_SECONDS)
        with self._lock:
            merged = OffsetsState()
            for each in (*known, *own[1].offsets(connector)):
                for record in merged.records(connector, [each]):
                    merged.replay(*record)
            return merged.offsets(connector)

    def write_offsets(self, connector: str, wanted: Sequence[KnownOffset], topic: str | None = None) -> None:
        """See Stores. Both topics get them (KIP-618): what is forgotten in one alone would shine through."""
        own = self._own(topic)
        if own is not None:
            self._write(own[0], own[1], connector, wanted)
        if wanted:
            self._write(self._offset_log, self._offsets, connector, wanted)

    def _write(
        self, log_: KafkaLog, state: OffsetsState, connector: str, wanted: Sequence[KnownOffset]
    ) -> None:
        with self._lock:
            records = state.records(connector, wanted)
        log_.send(records, WRITE_SECONDS)
        log_.read_to_end(WRITE_SECONDS)
