"""Questions to the cluster about topics: ids, partitions, settings, the first and the last offset."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, OffsetSpec, ResourceType

from moldau.kit.client_config import client_log, sentence
from moldau.kit.errors import KitError, TimedOut
from moldau.kit.group_reader import Partition

_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"  # all zeros: a broker that knows no topic ids
_ADMIN_SETTINGS = (
    "bootstrap.servers",
    "security.",
    "sasl.",
    "ssl.",
    "client.",
    "socket.",
    "reconnect.",
    "broker.",
)
_TIMEOUT_SECONDS = 30.0


class Topics:
    """Asks with an admin client of its own; errors are KitError."""

    def __init__(self, config: Mapping[str, Any], timeout_seconds: float = _TIMEOUT_SECONDS) -> None:
        settings = {name: value for name, value in config.items() if name.startswith(_ADMIN_SETTINGS)}
        self.admin = AdminClient(settings, logger=client_log)
        self._timeout_seconds = timeout_seconds

    def _ask(self, what: str, future: Any, make: str = "") -> Any:
        """The answer. `make`: the command that makes the topic, told if there is none."""
        try:
            return future.result(self._timeout_seconds + 5)
        except KafkaException as error:
            if make and error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise KitError(f"{what}: it does not exist. Make it first: {make}") from error
            raise KitError(f"{what}: {sentence(error)}") from error
        except TimeoutError as error:
            raise TimedOut(
                f"{what}: no answer within {self._timeout_seconds:.0f} s; `moldau doctor` looks for the cause"
            ) from error

    def create(self, topic: str, partitions: int, settings: dict[str, str]) -> None:
        """Make a topic, unless it exists."""
        new = NewTopic(topic, partitions, config=settings)
        future = self.admin.create_topics([new], request_timeout=self._timeout_seconds)[topic]
        try:
            self._ask(f"topic {topic} is not created", future)
        except KitError as error:
            cause = error.__cause__
            if (
                not isinstance(cause, KafkaException)
                or cause.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS
            ):
                raise

    def describe(self, topic: str) -> tuple[str, int]:
        """A topic's id ("" if the broker knows none) and its number of partitions."""
        asked = self.admin.describe_topics(TopicCollection([topic]), request_timeout=self._timeout_seconds)
        found = self._ask(f"topic {topic} is not described", asked[topic], f"moldau topics create {topic}")
        text = str(found.topic_id)
        return ("" if text == _NO_ID else text), len(found.partitions)

    def settings(self, topic: str) -> dict[str, str]:
        """The settings of a topic, which is a table's."""
        resource = ConfigResource(ResourceType.TOPIC, topic)
        asked = self.admin.describe_configs([resource], request_timeout=self._timeout_seconds)
        make = f"moldau topics create {topic} --config cleanup.policy=compact"
        found = self._ask(f"the settings of {topic} are not known", asked[resource], make)
        return {name: str(entry.value) for name, entry in found.items()}

    def first_offsets(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """Log start offsets."""
        return self._offsets(partitions, OffsetSpec.earliest())  # type: ignore[no-untyped-call]

    def end_offsets(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """High watermarks."""
        return self._offsets(partitions, OffsetSpec.latest())  # type: ignore[no-untyped-call]

    def _offsets(self, partitions: Iterable[Partition], spec: OffsetSpec) -> dict[Partition, int]:
        query = {TopicPartition(*one): spec for one in partitions}
        if not query:
            return {}
        asked = self.admin.list_offsets(query, request_timeout=self._timeout_seconds)
        answers = {}
        for one, future in asked.items():
            found = self._ask(f"the offsets of {one.topic}[{one.partition}] are not known", future)
            answers[one.topic, one.partition] = int(found.offset)
        return answers
