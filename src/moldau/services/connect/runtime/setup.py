"""What a task is made of: its settings, those of its worker, and the Kafka clients that follow from both.

defaults  <  the worker's security.* ssl.* sasl.* …  <  the worker's consumer.*  <  consumer.override.*
<  what a task cannot do without (no automatic commits, transactional.id, …)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from moldau.client.cluster import Cluster
from moldau.client.errors import OptionError
from moldau.client.librdkafka_settings import client_settings, create
from moldau.client.options import parse_options
from moldau.connect.errors import ConnectError
from moldau.services.connect.runtime.interface import TaskId

_SHARED = (
    "bootstrap.servers",
    "client.dns.lookup",
    "metadata.max.age.ms",
    "reconnect.backoff.ms",
    "reconnect.backoff.max.ms",
    "retry.backoff.ms",
    "security.protocol",
    "socket.connection.setup.timeout.ms",
)
_SHARED_PREFIXES = ("ssl.", "sasl.")
_CONSUMER: Mapping[str, Any] = {
    "auto.offset.reset": "earliest",
    "isolation.level": "read_committed",
    "partition.assignment.strategy": "cooperative-sticky",
    "fetch.wait.max.ms": 1000,
    "fetch.max.bytes": 16 * 1024 * 1024,
    "queued.max.messages.kbytes": 16 * 1024,  # a task's memory; a record that is larger comes alone
    "receive.message.max.bytes": 2**31 - 1,
}
_PRODUCER: Mapping[str, Any] = {
    "partitioner": "murmur2_random",  # Java's, so that keys land where Kafka Connect puts them
    "enable.idempotence": True,
    "acks": "all",
    "linger.ms": 5,
    "compression.type": "none",
}
_MEMBERS = ("group.", "max.poll.", "partition.assignment.", "session.", "heartbeat.", "auto.", "enable.")
_QUEUE_KIB = 32 * 1024
_QUESTION_SECONDS = 10.0


@dataclass(frozen=True)
class TaskSetup:
    """The settings of one task."""

    task: TaskId
    config: Mapping[str, str]
    """The connector's, placeholders replaced, and what `task_configs` added."""
    worker: Mapping[str, str]
    """The worker's, under Kafka's names."""

    @property
    def connector(self) -> str:
        """Its name."""
        return self.task.connector

    def setting(self, name: str, default: str = "") -> str:
        """The connector's, or else the worker's, or else this."""
        return self.config.get(name) or self.worker.get(name) or default

    @property
    def client_id(self) -> str:
        """As Kafka Connect names its clients."""
        return f"{self.task.connector}-{self.task.task}"

    @property
    def group(self) -> str:
        """The consumer group of a sink."""
        return self.config.get("consumer.override.group.id") or f"connect-{self.connector}"

    @property
    def transactional_id(self) -> str:
        """Of a source's task; Kafka Connect's form, so that a task of either fences the other's."""
        return self.transactional_id_of(self.task.task)

    def transactional_id_of(self, task: int) -> str:
        """Of a task of the same connector."""
        worker = self.worker.get("group.id", "connect-cluster")
        return f"{worker}-{self.connector}-{task}"

    @property
    def driver_id(self) -> str:
        """The transactional id of a sink's driver on Spark."""
        return driver_id(self.worker.get("group.id", "connect-cluster"), self.connector)

    def consumer_texts(self) -> dict[str, str]:
        """A consumer's settings as they were given, without those of a group's member (for Spark's
        source)."""
        given = self._layers("consumer.", "consumer.override.")
        return {name: value for name, value in given.items() if not name.startswith(_MEMBERS)}

    @property
    def offset_reset(self) -> str:
        """Where a sink begins in a partition that its group has no offset of: earliest, latest, none."""
        given = self._layers("consumer.", "consumer.override.")
        return given.get("auto.offset.reset", str(_CONSUMER["auto.offset.reset"])).strip().lower()

    def consumer(self, **required: Any) -> Consumer:
        """The consumer of a sink's task. ConnectError: a setting is wrong."""
        given = self._layers("consumer.", "consumer.override.")
        own = {
            **_CONSUMER,
            "client.id": f"connector-consumer-{self.client_id}",
            "group.id": self.group,
            # As long as the worker's own session: a dead worker's partitions wait no longer than its tasks.
            "session.timeout.ms": self.worker.get("session.timeout.ms", "10000"),
            "heartbeat.interval.ms": self.worker.get("heartbeat.interval.ms", "3000"),
        }
        settings = {**client_settings(given, own), "enable.auto.commit": False, **_named(required)}
        made: Consumer = _created(Consumer, settings, "consumer")
        return made

    def producer(self, purpose: str = "producer", **required: Any) -> Producer:
        """A producer. ConnectError."""
        given = self._layers("producer.", "producer.override.")
        own = {**_PRODUCER, "client.id": f"connector-{purpose}-{self.client_id}"}
        settings = {**client_settings(given, own), **_named(required)}
        largest = int(settings.get("message.max.bytes", 1_000_000))
        settings.setdefault("queue.buffering.max.kbytes", max(_QUEUE_KIB, 3 * largest // 1024))
        made: Producer = _created(Producer, settings, "producer")
        return made

    def admin(self) -> AdminClient:
        """An administrator. ConnectError."""
        given = self._layers("admin.", "admin.override.")
        own = {"client.id": f"connector-adminclient-{self.client_id}"}
        made: AdminClient = _created(AdminClient, client_settings(given, own), "admin client")
        return made

    def cluster(self) -> Cluster:
        """Moldau's own client, for questions: it gives up after ten seconds. ConnectError."""
        given = self._layers("admin.", "admin.override.")
        servers = given.pop("bootstrap.servers", "")
        try:
            options = parse_options(given, given.keys())
        except (OptionError, ValueError) as problem:
            raise ConnectError(f"the admin client cannot be made: {problem}") from None
        seconds = min(options.request_timeout_seconds, _QUESTION_SECONDS)
        return Cluster(
            servers,
            replace(options, request_timeout_seconds=seconds, api_timeout_seconds=_QUESTION_SECONDS),
        )

    def _layers(self, worker_prefix: str, connector_prefix: str) -> dict[str, str]:
        return {
            **shared_client_settings(self.worker),
            **_behind(worker_prefix, self.worker),
            **_behind(connector_prefix, self.config),
        }


def driver_id(worker_group: str, connector: str) -> str:
    """The transactional id of a sink on Spark: of its first task, the only one there."""
    return f"{worker_group}-{connector}-0-spark"


def shared_client_settings(worker: Mapping[str, str]) -> dict[str, str]:
    """Those of a worker that all its clients have: where the cluster is, and how to log in."""
    return {
        name: value for name, value in worker.items() if name in _SHARED or name.startswith(_SHARED_PREFIXES)
    }


def _behind(prefix: str, given: Mapping[str, str]) -> dict[str, str]:
    return {name.removeprefix(prefix): value for name, value in given.items() if name.startswith(prefix)}


def _named(required: Mapping[str, Any]) -> dict[str, Any]:
    return {name.replace("_", "."): value for name, value in required.items()}


def _created(make: Callable[[dict[str, Any]], Any], settings: dict[str, Any], what: str) -> Any:
    settings.setdefault("log_level", 3)
    try:
        return create(make, settings)
    except KafkaException as refused:
        raise ConnectError(f"the {what} cannot be made: {refused.args[0].str()}") from refused
