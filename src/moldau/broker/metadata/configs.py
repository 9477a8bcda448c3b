"""Effective settings: start-up settings overridden by dynamic ones.

    a broker's:  dynamic for this broker  >  dynamic for all  >  file, environment, command line  >  default
    a topic's:   its own  >  the broker's effective value of the first synonym that is set
    a group's:   its own  >  the broker's effective value of `group.` + name

The results are memoised on the start-up settings, so that topics with equal settings of their own share one
object, and the settings of 10,000 topics are parsed once. An image's tables are compared by identity, since
images share them.
"""

import logging
from collections.abc import Mapping
from typing import Any, TypeVar

from moldau.broker.metadata.image import ConfigKey, Image, ResourceType
from moldau.common.settings.broker import BrokerSettings
from moldau.common.settings.group import GroupSettings
from moldau.common.settings.prefixed import is_prefixed, row_of
from moldau.common.settings.rows import Scope, Setting, SettingError
from moldau.common.settings.table import SettingsObject
from moldau.common.settings.topic import TopicSettings

log = logging.getLogger("moldau.metadata")

NOTHING: Mapping[str, str] = {}
DEFAULT_BROKER: ConfigKey = (ResourceType.BROKER, "")
_UNIT_MS = {"minutes": 60_000, "hours": 3_600_000}

S = TypeVar("S", bound=SettingsObject)


def effective_broker_settings(image: Image, static: BrokerSettings, node_id: int) -> BrokerSettings:
    """The settings of broker `node_id` with all dynamic changes; the same object as long as none is made."""
    for_all = image.configs.get(DEFAULT_BROKER, NOTHING)
    for_one = image.configs.get((ResourceType.BROKER, str(node_id)), NOTHING)
    if not for_all and not for_one:
        return static
    known = static.memo.get(("effective", node_id))
    if known is not None and known[0] is for_all and known[1] is for_one:
        settings: BrokerSettings = known[2]
        return settings
    dynamic = _filled_in({**for_all, **for_one}, static)
    settings = static.replace(
        prefixed={**static.prefixed, **{name: dynamic[name] for name in dynamic if is_prefixed(name)}},
        **_parsed(BrokerSettings.ROWS, dynamic, dynamic_only=True),
    )
    static.remember(("effective", node_id), (for_all, for_one, settings))
    return settings


def _filled_in(dynamic: dict[str, str], static: BrokerSettings) -> dict[str, str]:
    """The secrets among dynamic settings with their variables (`${file:...}`) replaced by what this broker
    has for them. One that it does not have leaves the setting as it was at the start.

    Other settings stay as they are: DescribeConfigs shows them, and who may change settings need not be one
    who may read this machine's files.
    """
    fill = static.fill_in
    if fill is None:
        return dynamic
    found = {}
    for name, value in dynamic.items():
        row = row_of(name) if "${" in value else None
        if row is not None and row.sensitive:
            try:
                value = fill(name, value)
            except SettingError as error:
                log.error("a changed setting has no effect: %s", error.sentence)
                continue
        found[name] = value
    return found


def topic_settings(image: Image, static: BrokerSettings, topic: str) -> TopicSettings:
    """The settings of a topic on the broker that was started with `static`."""
    broker = effective_broker_settings(image, static, static.node_id)
    return topic_settings_over(broker, image.configs.get((ResourceType.TOPIC, topic), NOTHING))


def topic_settings_over(broker: BrokerSettings, own: Mapping[str, str]) -> TopicSettings:
    """The settings of a topic with these settings of its own, under these of the broker."""
    return _over(broker, TopicSettings, topic_defaults, own)


def group_settings(image: Image, static: BrokerSettings, group_id: str) -> GroupSettings:
    """The settings of a group on the broker that was started with `static`."""
    broker = effective_broker_settings(image, static, static.node_id)
    return _over(
        broker, GroupSettings, group_defaults, image.configs.get((ResourceType.GROUP, group_id), NOTHING)
    )


def topic_defaults(broker: BrokerSettings) -> TopicSettings:
    """What a topic without settings of its own gets from the broker."""
    return TopicSettings(**_inherited(TopicSettings.ROWS, broker))


def group_defaults(broker: BrokerSettings) -> GroupSettings:
    """What a group without settings of its own gets from the broker."""
    return GroupSettings(**_inherited(GroupSettings.ROWS, broker))


def inherited_value(row: Setting, broker: BrokerSettings) -> Any:
    """The broker's value for a topic's or group's setting, in that setting's unit."""
    for synonym in row.synonyms:
        value = broker.get(synonym)
        if value is not None:
            unit_ms = _UNIT_MS.get(synonym.rpartition(".")[2], 1)
            return value * unit_ms if unit_ms > 1 and value >= 0 else value
    return row.default


def _inherited(rows: Mapping[str, Setting], broker: BrokerSettings) -> dict[str, Any]:
    return {row.attribute: inherited_value(row, broker) for row in rows.values() if row.synonyms}


def _over(broker: BrokerSettings, kind: type[S], defaults: Any, own: Mapping[str, str]) -> S:
    key = (kind, frozenset(own.items()))
    settings: S | None = broker.memo.get(key)
    if settings is None:
        if own:
            base: S = _over(broker, kind, defaults, NOTHING)
            settings = base.replace(**_parsed(kind.ROWS, own, dynamic_only=False))
            if isinstance(settings, TopicSettings) and settings.internal_segment_bytes is not None:
                settings = settings.replace(segment_bytes=settings.internal_segment_bytes)
        else:
            settings = defaults(broker)
        broker.remember(key, settings)
    return settings


def _parsed(rows: Mapping[str, Setting], texts: Mapping[str, str], *, dynamic_only: bool) -> dict[str, Any]:
    """Stored values were checked when they were set; one that a newer or older version set is left out."""
    values: dict[str, Any] = {}
    for name, text in texts.items():
        row = rows.get(name)
        if row is None or (dynamic_only and row.scope is Scope.READ_ONLY):
            continue
        try:
            values[row.attribute] = row.parse(text)
        except ValueError:
            continue
    return values
