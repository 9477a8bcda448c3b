"""The settings of a connector that a runtime reads itself, with Kafka's names, defaults and sentences.

What a task does with them is in the module that uses them; `validate` has the same rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moldau.connect.settings import Importance, Setting, SettingType
from moldau.connect.typed_settings import required_typed

_BOOLEAN, _STRING, _LONG, _INT = SettingType.BOOLEAN, SettingType.STRING, SettingType.LONG, SettingType.INT
_ERRORS = "Error Handling"
_MOLDAU = "Restarts"


def _not_negative(value: int) -> str | None:
    return None if value >= 0 else "Value must be at least 0"


def _at_least_minus_one(value: int) -> str | None:
    return None if value >= -1 else "Value must be at least -1"


ERROR_ROWS = (
    Setting(
        "errors.retry.timeout",
        _LONG,
        "For how long, in ms, an operation that may succeed later is repeated; -1: without end. Reading and "
        "writing the other system is repeated without end unless this is given.",
        None,
        group=_ERRORS,
        check=_at_least_minus_one,
    ),
    Setting(
        "errors.retry.delay.max.ms",
        _LONG,
        "The longest pause, in ms, between two attempts.",
        60_000,
        group=_ERRORS,
        check=_at_least_minus_one,
    ),
    Setting(
        "errors.tolerance",
        _STRING,
        "none: a record that cannot be handled fails the task; all: it is left out (and goes to the dead "
        "letter topic, if there is one).",
        "none",
        group=_ERRORS,
        choices=("none", "all"),
    ),
    Setting("errors.log.enable", _BOOLEAN, "Whether such records are logged.", False, group=_ERRORS),
    Setting(
        "errors.log.include.messages",
        _BOOLEAN,
        "Whether the log names the record (topic, partition, offset).",
        False,
        group=_ERRORS,
    ),
    Setting(
        "errors.deadletterqueue.topic.name",
        _STRING,
        "The topic that records go to which cannot be handled; of sinks and sources alike.",
        "",
        group=_ERRORS,
    ),
    Setting(
        "errors.deadletterqueue.topic.replication.factor",
        SettingType.SHORT,
        "Of that topic, if it has to be created.",
        3,
        group=_ERRORS,
    ),
    Setting(
        "errors.deadletterqueue.context.headers.enable",
        _BOOLEAN,
        "Whether such a record says in headers (__connect.errors.…) where it failed and why.",
        False,
        group=_ERRORS,
    ),
)

RESTART_ROWS = (
    Setting(
        "moldau.restart.enable",
        _BOOLEAN,
        "Whether a failed task starts again by itself.",
        True,
        group=_MOLDAU,
    ),
    Setting(
        "moldau.restart.delay.ms",
        _LONG,
        "How long after its first failure, in ms; twice as long after each further one.",
        1_000,
        Importance.LOW,
        _MOLDAU,
        check=_not_negative,
    ),
    Setting(
        "moldau.restart.delay.max.ms",
        _LONG,
        "How long at most, in ms.",
        300_000,
        Importance.LOW,
        _MOLDAU,
        check=_not_negative,
    ),
    Setting(
        "moldau.restart.reset.ms",
        _LONG,
        "A task that ran for so long, in ms, begins anew with the first delay.",
        300_000,
        Importance.LOW,
        _MOLDAU,
        check=_not_negative,
    ),
)

SOURCE_ROWS = (
    Setting(
        "exactly.once.support",
        _STRING,
        "required: the connector is refused where it cannot deliver each record once.",
        "requested",
        choices=("requested", "required"),
    ),
    Setting(
        "transaction.boundary",
        _STRING,
        "What one transaction has: what was read together (poll), what came in an interval (interval), what "
        "the connector says belongs together (connector).",
        "poll",
        choices=("poll", "interval", "connector"),
    ),
    Setting("transaction.boundary.interval.ms", _LONG, "The interval, in ms.", None, check=_not_negative),
    Setting("offsets.storage.topic", _STRING, "A topic of its own for this connector's offsets.", None),
    Setting(
        "moldau.partitions.interval.ms",
        _LONG,
        "How often, in ms, a source is asked what there is to read.",
        30_000,
        Importance.LOW,
        check=_not_negative,
    ),
)

ENGINE_ROW = Setting(
    "moldau.connect.engine",
    _STRING,
    "Where tasks run: local (threads of the worker), spark (streaming queries; the worker needs a Spark "
    "session), auto (a sink on Spark while there is much to do, see moldau.connect.engine.records; a source "
    "locally).",
    "auto",
    choices=("auto", "local", "spark"),
)
ENGINE_RECORDS_ROW = Setting(
    "moldau.connect.engine.records",
    _LONG,
    "With moldau.connect.engine=auto: about so many records a second move a sink to Spark (above 1.5 times "
    "as many for half a minute) and back (below half as many for five minutes).",
    100,
    Importance.LOW,
    check=_not_negative,
)

SINK_ROWS = (
    Setting("topics", SettingType.LIST, "The topics to read.", [], Importance.HIGH),
    Setting("topics.regex", _STRING, "Topics whose names match are read.", "", Importance.HIGH),
)


def settings_of(rows: tuple[Setting, ...], config: Mapping[str, str], owner: str) -> dict[str, Any]:
    """The values of these rows. ConnectError with all that is wrong."""
    names = {row.name for row in rows}
    given = {name: value for name, value in config.items() if name in names}
    return required_typed(rows, given, owner)
