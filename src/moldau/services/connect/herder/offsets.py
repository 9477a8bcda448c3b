"""Offsets of connectors, shown and changed (KIP-875): in connect-offsets of sources, in the consumer group
of sinks.

    {"offsets": [{"partition": {"file": "/x"}, "offset": {"position": 17}}]}
    {"offsets": [{"partition": {"kafka_topic": "t", "kafka_partition": 0}, "offset": {"kafka_offset": 17}}]}
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from moldau.client.errors import ClientError
from moldau.connect.batch import TopicPartition
from moldau.connect.errors import ConnectError
from moldau.connect.sink import Sink
from moldau.connect.source import Source
from moldau.services.connect.herder.fencing import Fencing
from moldau.services.connect.herder.interface import OffsetRow
from moldau.services.connect.herder.parts import Started
from moldau.services.connect.herder.problems import bad_request, failed
from moldau.services.connect.stores.configs import Config
from moldau.services.connect.stores.interface import Cluster, Stores
from moldau.services.connect.stores.kafka_log import LogFailed
from moldau.services.connect.stores.offsets import KnownOffset

_TOPIC, _PARTITION, _OFFSET = "kafka_topic", "kafka_partition", "kafka_offset"
_MANAGED = (
    "The Connect framework-managed offsets for this connector have been {} successfully. However, if this "
    "connector "
    "manages offsets externally, they will need to be manually {} in the system that the connector uses."
)
Still = Callable[[], None]
"""Returns while the change may still be made. HerderProblem."""


def _always() -> None:
    """For callers that nobody can come in between."""


class Offsets:
    """Reads and changes them; blocks."""

    def __init__(self, stores: Stores, cluster: Cluster, fencing: Fencing, started: Started) -> None:
        self._stores, self._cluster, self._fencing, self._started = stores, cluster, fencing, started

    def shown(self, name: str, config: Config, kind: str) -> list[OffsetRow]:
        """Where a connector stands. HerderProblem."""
        try:
            if kind == "sink":
                found = self._cluster.group_offsets(group_of(name, config))
                known = [_known(*place, offset) for place, offset in sorted(found.items())]
            else:
                known = list(self._stores.offsets(name, config.get("offsets.storage.topic")))
        except (ClientError, LogFailed, TimeoutError) as problem:
            raise failed(f"Failed to retrieve offsets for {kind} connector {name}: {problem}") from None
        return [OffsetRow(each.partition, each.offset) for each in known]

    def alter(
        self, name: str, config: Config, kind: str, wanted: Sequence[KnownOffset], still: Still = _always
    ) -> str:
        """Set them; None forgets one. What to tell the user. HerderProblem."""
        return self._change(name, config, kind, wanted, still, is_reset=False)

    def reset(self, name: str, config: Config, kind: str, still: Still = _always) -> str:
        """Forget all. What to tell the user. HerderProblem."""
        if kind == "sink":
            wanted = [_known(*place, None) for place in self._places_of_sink(name, config)]
        else:
            shown = self.shown(name, config, kind)
            wanted = [KnownOffset(each.partition, None) for each in shown]
        return self._change(name, config, kind, wanted, still, is_reset=True)

    def _places_of_sink(self, name: str, config: Config) -> list[tuple[str, int]]:
        """What its group knows, and all partitions of the topics that it reads: a sink may keep positions of
        partitions which its group has forgotten, or never knew."""
        try:
            known = set(self._cluster.group_offsets(group_of(name, config)))
            topics = [each.strip() for each in config.get("topics", "").split(",") if each.strip()]
            known.update(self._cluster.partitions(topics, config.get("topics.regex", "")))
        except ClientError as problem:
            raise failed(f"Failed to list offsets of the consumer group of {name}: {problem}") from None
        return sorted(known)

    def _change(
        self,
        name: str,
        config: Config,
        kind: str,
        wanted: Sequence[KnownOffset],
        still: Still,
        *,
        is_reset: bool,
    ) -> str:
        verb = "reset" if is_reset else "altered"
        try:
            if kind == "sink":
                is_whole = self._change_sink(name, config, wanted, still, is_reset=is_reset)
            else:
                is_whole = self._change_source(name, config, wanted, still)
        except ConnectError as refused:
            raise bad_request(f"The offsets of connector {name} were not {verb}: {refused}") from None
        except (ClientError, LogFailed, TimeoutError) as problem:
            deed = verb.removesuffix("ed") if not is_reset else verb
            raise failed(
                f"Failed to {deed} offsets for connector {name}: {problem}. If it goes on, check that the "
                "connector is completely stopped: its tasks may be busy for some seconds more"
            ) from None
        if is_whole:
            return f"The offsets for this connector have been {verb} successfully"
        return _MANAGED.format(verb, verb)

    def _change_source(self, name: str, config: Config, wanted: Sequence[KnownOffset], still: Still) -> bool:
        connector = self._started(name, config)
        try:
            if isinstance(connector, Source):
                for each in wanted:
                    if each.offset is not None:
                        connector.check_offsets(each.offset)
        finally:
            connector.stop()
        still()
        self._fencing.fence_all(name)
        self._stores.write_offsets(name, wanted, config.get("offsets.storage.topic"))
        return (
            type(connector).check_offsets is not Source.check_offsets
            if isinstance(connector, Source)
            else False
        )

    def _change_sink(
        self, name: str, config: Config, wanted: Sequence[KnownOffset], still: Still, *, is_reset: bool
    ) -> bool:
        places = _places(wanted)
        group = group_of(name, config)
        connector = self._started(name, config)
        try:
            if isinstance(connector, Sink):
                still()
                try:
                    connector.set_positions(
                        {TopicPartition(*place): offset for place, offset in places.items()}
                    )
                except NotImplementedError as problem:
                    raise ConnectError(str(problem)) from None
        finally:
            connector.stop()
        still()
        self._fencing.fence_driver(name)
        if is_reset:
            self._cluster.delete_group(group)
            return True
        gone = [place for place, offset in places.items() if offset is None]
        if gone:
            self._cluster.delete_group_offsets(group, gone)
        kept = {place: offset for place, offset in places.items() if offset is not None}
        if kept:
            self._cluster.alter_group_offsets(group, kept)
        return True


def _known(topic: str, partition: int, offset: int | None) -> KnownOffset:
    return KnownOffset({_TOPIC: topic, _PARTITION: partition}, None if offset is None else {_OFFSET: offset})


def group_of(name: str, config: Config) -> str:
    """The consumer group of a sink."""
    return config.get("consumer.override.group.id") or f"connect-{name}"


def _places(wanted: Sequence[KnownOffset]) -> dict[tuple[str, int], int | None]:
    found: dict[tuple[str, int], int | None] = {}
    for each in wanted:
        topic, partition = each.partition.get(_TOPIC), each.partition.get(_PARTITION)
        if topic is None or partition is None:
            raise bad_request(
                f"The partition for a sink connector offset must contain the keys '{_TOPIC}' and "
                f"'{_PARTITION}'"
            )
        place = (
            str(topic),
            _number(partition, f"Failed to parse the following Kafka partition value: '{partition}'"),
        )
        if each.offset is None:
            found[place] = None
            continue
        if _OFFSET not in each.offset:
            raise bad_request(
                f"The offset for a sink connector should either be null or contain the key '{_OFFSET}'"
            )
        value = each.offset[_OFFSET]
        found[place] = _number(value, f"Failed to parse the following Kafka offset value: '{value}'")
    return found


def _number(value: Any, complaint: str) -> int:
    try:
        number = int(str(value))
    except ValueError:
        number = -1
    if number < 0 or isinstance(value, bool):
        raise bad_request(f"{complaint}. It should be a whole number, 0 or greater")
    return number
