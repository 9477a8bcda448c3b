"""The settings that every connector has beside its own, with Kafka's names, defaults, groups and order.

What a task reads of them itself is in the runtime's rows; here are those that make a connector one.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping

from moldau.connect.settings import REQUIRED, Importance, Setting, SettingType, Width
from moldau.services.connect.stores.configs import NAME_BYTES_MAX

COMMON, TRANSFORMS, PREDICATES = "Common", "Transforms", "Predicates"
TOPIC_CREATION = "Topic Creation"
_STRING, _CLASS, _LIST = SettingType.STRING, SettingType.CLASS, SettingType.LIST
_NO_VERSIONS = "a plugin has the one version that is installed"


def _at_least_one(value: int) -> str | None:
    return None if value >= 1 else "Value must be at least 1"


def _name(value: str) -> str | None:
    if not value.strip():
        return "name may not be empty"
    if any(unicodedata.category(letter) in ("Cc", "Cs") for letter in value):
        return "name may not contain control characters"
    too_long = len(value.encode("utf-8", "replace")) > NAME_BYTES_MAX
    return f"name may not have more than {NAME_BYTES_MAX} bytes" if too_long else None


def _different(values: list[str]) -> str | None:
    twice = sorted({value for value in values if values.count(value) > 1})
    return f"Duplicate alias provided: {', '.join(twice)}" if twice else None


COMMON_ROWS = (
    Setting(
        "name",
        _STRING,
        "Globally unique name to use for this connector.",
        REQUIRED,
        Importance.HIGH,
        COMMON,
        "Connector name",
        Width.MEDIUM,
        check=_name,
    ),
    Setting(
        "connector.class",
        _STRING,
        "Which connector: a short name (GET /connector-plugins), the name of another product's class whose "
        "job "
        "is done here, or module:Class of one's own.",
        REQUIRED,
        Importance.HIGH,
        COMMON,
        "Connector class",
        Width.LONG,
    ),
    Setting(
        "connector.plugin.version",
        _STRING,
        "The version of the connector.",
        None,
        Importance.MEDIUM,
        COMMON,
        "Connector version",
        Width.MEDIUM,
        without_effect=_NO_VERSIONS,
    ),
    Setting(
        "tasks.max",
        SettingType.INT,
        "Maximum number of tasks to use for this connector.",
        1,
        Importance.HIGH,
        COMMON,
        "Tasks max",
        Width.SHORT,
        check=_at_least_one,
    ),
    Setting(
        "tasks.max.enforce",
        SettingType.BOOLEAN,
        "Whether a connector that wants more tasks than tasks.max fails.",
        True,
        Importance.LOW,
        COMMON,
        "Enforce tasks max",
        Width.SHORT,
    ),
    *(
        Setting(
            f"{what}.converter",
            _CLASS,
            f"How the {what}s of records become bytes, and bytes {what}s; none: as the worker says.",
            None,
            Importance.LOW,
            COMMON,
            f"{what.capitalize()} converter class",
            Width.SHORT,
        )
        for what in ("key", "value", "header")
    ),
    *(
        Setting(
            f"{what}.converter.plugin.version",
            _STRING,
            f"The version of the {what} converter.",
            None,
            Importance.LOW,
            COMMON,
            f"{what.capitalize()} converter version",
            Width.SHORT,
            without_effect=_NO_VERSIONS,
        )
        for what in ("key", "value", "header")
    ),
    Setting(
        "config.action.reload",
        _STRING,
        "What happens when a value that a config provider gave has changed: the connector is restarted, or "
        "nothing.",
        "restart",
        Importance.LOW,
        COMMON,
        "Reload Action",
        Width.MEDIUM,
        choices=("none", "restart"),
    ),
    Setting(
        "moldau.connect.engine",
        _STRING,
        "What runs the tasks: a thread of the worker (local), Spark, or whichever fits (auto).",
        "auto",
        Importance.MEDIUM,
        COMMON,
        "Engine",
        Width.SHORT,
        choices=("auto", "local", "spark"),
    ),
    Setting(
        "moldau.connect.engine.records",
        SettingType.LONG,
        "With engine auto: about so many records a second move a sink to Spark and back.",
        100,
        Importance.LOW,
        COMMON,
        "Records for Spark",
        Width.SHORT,
    ),
    Setting(
        "transforms",
        _LIST,
        "Aliases for the transformations to be applied to records, in this order.",
        [],
        Importance.LOW,
        TRANSFORMS,
        "Transforms",
        Width.LONG,
        check=_different,
    ),
    Setting(
        "predicates",
        _LIST,
        "Aliases for the predicates used by transformations.",
        [],
        Importance.LOW,
        PREDICATES,
        "Predicates",
        Width.LONG,
        check=_different,
    ),
)

SOURCE_GROUPS = Setting(
    "topic.creation.groups",
    _LIST,
    "Groups of configurations for topics created by source connectors.",
    [],
    Importance.LOW,
    TOPIC_CREATION,
    "Topic Creation Groups",
    Width.LONG,
    check=_different,
)

DEFAULT_GROUP = "default"
_CREATION = "topic.creation."


def _count(value: int) -> str | None:
    return None if value == -1 or value >= 1 else "Value must be at least 1, or -1 for the brokers' default"


def creation_rows(group: str) -> tuple[Setting, ...]:
    """What says how topics of a group are created (KIP-158); names stand behind `topic.creation.GROUP.`."""
    counts = (
        Setting(
            "replication.factor",
            SettingType.SHORT,
            "The replicas of topics created in this group.",
            REQUIRED,
            Importance.LOW,
            check=_count,
        ),
        Setting(
            "partitions",
            SettingType.INT,
            "The partitions of topics created in this group.",
            REQUIRED,
            Importance.LOW,
            check=_count,
        ),
    )
    if group == DEFAULT_GROUP:
        return counts
    include = Setting("include", _LIST, "Patterns of the topics of this group.", REQUIRED, Importance.LOW)
    exclude = Setting("exclude", _LIST, "Patterns of topics that are not.", [], Importance.LOW)
    return (include, exclude, *counts)


def creation_groups(config: Mapping[str, str]) -> list[str]:
    """The groups of a source's configuration; `default` is one as soon as any of these settings is given."""
    named = [part.strip() for part in config.get("topic.creation.groups", "").split(",") if part.strip()]
    is_used = bool(named) or any(name.startswith(_CREATION) for name in config)
    return [
        *dict.fromkeys(each for each in named if each != DEFAULT_GROUP),
        *([DEFAULT_GROUP] if is_used else []),
    ]
