"""Settings as DescribeConfigs shows them: the value in effect, where it comes from, and all that stand behind
it.

The synonyms of an entry are listed from the strongest source to the weakest; the first one is the value in
effect, and its source is the entry's source. (Kafka leaves out a synonym of another name when describing
`retention.ms`, so that a `log.retention.hours` in the file shows as a default there; here it shows as what it
is.)
"""

from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import NamedTuple

from moldau.broker.metadata.configs import (
    DEFAULT_BROKER,
    NOTHING,
    effective_broker_settings,
    group_settings,
    topic_settings_over,
)
from moldau.broker.metadata.image import Image, ResourceType
from moldau.common.settings.broker import BrokerSettings
from moldau.common.settings.prefixed import changes_live, row_of
from moldau.common.settings.rows import Kind, Scope, Setting
from moldau.common.settings.sources import StaticSettings
from moldau.common.settings.table import SettingsObject
from moldau.common.settings.topic import TopicSettings

_DESCRIPTIONS_MAX = 256
"""How many different descriptions of topics are kept; each takes some 15 KB."""


class Source(IntEnum):
    """Where a value comes from, numbered as in the Kafka protocol."""

    UNKNOWN = 0
    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class Synonym(NamedTuple):
    """One value that stands behind a setting, and its source. A sensitive value is None."""

    name: str
    value: str | None
    source: Source


class Entry(NamedTuple):
    """One setting of a resource. A sensitive value is None."""

    name: str
    value: str | None
    read_only: bool
    source: Source
    sensitive: bool
    synonyms: tuple[Synonym, ...]
    kind: Kind
    documentation: str


THROTTLES = frozenset(
    {
        "leader.replication.throttled.rate",
        "follower.replication.throttled.rate",
        "replica.alter.log.dirs.io.max.bytes.per.second",
    }
)
"""Settings that brokers have only while an administrator has set them: unset ones are not listed, as in
Kafka."""


def describe_topic(image: Image, static: StaticSettings, node_id: int, topic: str) -> list[Entry]:
    """All settings of a topic."""
    return describe_topic_configs(
        image, static, node_id, image.configs.get((ResourceType.TOPIC, topic), NOTHING)
    )


def describe_topic_configs(
    image: Image, static: StaticSettings, node_id: int, own: Mapping[str, str]
) -> list[Entry]:
    """All settings of a topic that has these settings of its own; topics with equal ones share the list."""
    broker = effective_broker_settings(image, static.broker, node_id)
    known: dict[frozenset[tuple[str, str]], list[Entry]] = broker.memo.get(("described", node_id), {})
    key = frozenset(own.items())
    entries = known.get(key)
    if entries is None:
        layers = _layers(image, static, node_id)
        entries = list(_inheriting(topic_settings_over(broker, own), own, Source.TOPIC, layers))
        if len(known) < _DESCRIPTIONS_MAX:
            broker.remember(("described", node_id), {**known, key: entries})
    return entries


def describe_group(image: Image, static: StaticSettings, node_id: int, group_id: str) -> list[Entry]:
    """All settings of a group."""
    own = image.configs.get((ResourceType.GROUP, group_id), NOTHING)
    settings = group_settings(image, static.broker, group_id)
    return list(_inheriting(settings, own, Source.GROUP, _layers(image, static, node_id)))


def describe_broker(image: Image, static: StaticSettings, node_id: int) -> list[Entry]:
    """All settings of one broker."""
    settings = effective_broker_settings(image, static.broker, node_id)
    layers = _layers(image, static, node_id)
    entries = []
    for row in BrokerSettings.ROWS.values():
        if row.name in THROTTLES and all(row.name not in texts for texts, _ in layers):
            continue
        synonyms = tuple(_found(_broker_synonyms(row.name), layers))
        if all(synonym.name != row.name for synonym in synonyms):
            synonyms = ()  # an unset log.retention.ms is unset, whatever log.retention.hours says
        entries.append(_entry(row, settings, synonyms, read_only=row.scope is Scope.READ_ONLY))
    unknown = {name: None for texts, _ in layers[:2] for name in texts if row_of(name) is None}
    return entries + [_prefixed(name, layers) for name in {**dict.fromkeys(settings.prefixed), **unknown}]


def _prefixed(name: str, layers: "_Layers") -> Entry:
    """A setting of one listener, or one that nobody here knows. One without a row is taken for a secret, as
    in Kafka.
    """
    row = row_of(name)
    sensitive = row is None or row.sensitive
    found = [(texts[name], source) for texts, source in layers if name in texts]
    synonyms = tuple(Synonym(name, None if sensitive else text, source) for text, source in found)
    return Entry(
        name,
        None if sensitive else found[0][0],
        not changes_live(name),
        found[0][1],
        sensitive,
        synonyms,
        Kind.PASSWORD if row is None else row.kind,
        "" if row is None else row.help,
    )


def describe_broker_defaults(image: Image) -> list[Entry]:
    """The dynamic settings for all brokers: only those that are set."""
    entries = []
    for name, value in image.configs.get(DEFAULT_BROKER, NOTHING).items():
        row = row_of(name)
        if row is None:
            entries.append(_prefixed(name, ((image.configs[DEFAULT_BROKER], Source.DYNAMIC_DEFAULT_BROKER),)))
            continue
        shown = None if row.sensitive else value
        synonym = Synonym(name, shown, Source.DYNAMIC_DEFAULT_BROKER)
        entries.append(
            Entry(
                name,
                shown,
                not changes_live(name),
                Source.DYNAMIC_DEFAULT_BROKER,
                row.sensitive,
                (synonym,),
                row.kind,
                row.help,
            )
        )
    return entries


_Layers = tuple[tuple[Mapping[str, str], Source], ...]


def _layers(image: Image, static: StaticSettings, node_id: int) -> _Layers:
    return (
        (image.configs.get((ResourceType.BROKER, str(node_id)), NOTHING), Source.DYNAMIC_BROKER),
        (image.configs.get(DEFAULT_BROKER, NOTHING), Source.DYNAMIC_DEFAULT_BROKER),
        (static.texts, Source.STATIC_BROKER),
    )


def _broker_synonyms(name: str) -> tuple[str, ...]:
    """The broker settings that stand behind this one: itself, then the coarser ones (ms, minutes, hours)."""
    return _CHAINS.get(name, (name,))


def _chains() -> dict[str, tuple[str, ...]]:
    chains: dict[str, tuple[str, ...]] = {}
    for row in TopicSettings.ROWS.values():
        for position, name in enumerate(row.synonyms):
            if BrokerSettings.ROWS[name].nullable or position:
                chains[name] = row.synonyms[position:]
    chains["log.flush.scheduler.interval.ms"] = ("log.flush.scheduler.interval.ms",)
    chains["node.id"] = ("node.id", "broker.id")
    return chains


_CHAINS = _chains()


def _found(names: tuple[str, ...], layers: _Layers) -> Iterator[Synonym]:
    for texts, source in layers:
        for name in names:
            if name in texts:
                yield Synonym(name, None if BrokerSettings.ROWS[name].sensitive else texts[name], source)
    for name in names:
        row = BrokerSettings.ROWS[name]
        if row.default is not None:
            yield Synonym(name, None if row.sensitive else row.text(row.default), Source.DEFAULT)


def _inheriting(
    settings: SettingsObject, own: Mapping[str, str], own_source: Source, layers: _Layers
) -> Iterator[Entry]:
    for row in type(settings).ROWS.values():
        synonyms: list[Synonym] = []
        if row.name in own:
            synonyms.append(Synonym(row.name, own[row.name], own_source))
        elif row.name.startswith("internal."):
            continue
        if row.synonyms:
            synonyms += _found(row.synonyms, layers)
        elif row.default is not None:
            synonyms.append(Synonym(row.name, row.text(row.default), Source.DEFAULT))
        yield _entry(row, settings, tuple(synonyms), read_only=False)


def _entry(
    row: Setting, settings: SettingsObject, synonyms: tuple[Synonym, ...], *, read_only: bool
) -> Entry:
    value = None if row.sensitive else row.text(getattr(settings, row.attribute))
    source = synonyms[0].source if synonyms else Source.DEFAULT
    return Entry(row.name, value, read_only, source, row.sensitive, synonyms, row.kind, row.help)


__all__ = [
    "Entry",
    "Source",
    "Synonym",
    "describe_broker",
    "describe_broker_defaults",
    "describe_group",
    "describe_topic",
    "describe_topic_configs",
]
