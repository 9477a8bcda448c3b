"""Settings of the JDBC source: Confluent's names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moldau.common.core.java_patterns import compile_java
from moldau.common.core.patterns import PatternError
from moldau.connect.connectors.jdbc.sink_settings import CONNECTION_SETTINGS
from moldau.connect.settings import REQUIRED, Importance, Setting, SettingType

_DATABASE, _MODE, _CONNECTOR = "Database", "Mode", "Connector"
MODES = ("bulk", "incrementing", "timestamp", "timestamp+incrementing")


def _pattern(value: Any) -> str | None:
    for each in value:
        try:
            compile_java(each, linear=True)
        except PatternError as error:
            return f"{each!r} is no regular expression: {error}"
    return None


def _tables(name: str, doc: str) -> Setting:
    return Setting(name, SettingType.LIST, doc, [], Importance.MEDIUM, _DATABASE)


SOURCE_SETTINGS = (
    *CONNECTION_SETTINGS,
    _tables("table.whitelist", "Tables to read: `table`, `schema.table` or `database.schema.table`."),
    _tables("table.blacklist", "Tables not to read, in the same way. Not together with table.whitelist."),
    Setting(
        "table.include.list",
        SettingType.LIST,
        "Regular expressions of `database.schema.table`: tables to read.",
        [],
        Importance.MEDIUM,
        _DATABASE,
        check=_pattern,
    ),
    Setting(
        "table.exclude.list",
        SettingType.LIST,
        "Regular expressions of `database.schema.table`: tables not to read.",
        [],
        Importance.MEDIUM,
        _DATABASE,
        check=_pattern,
    ),
    Setting(
        "schema.pattern",
        SettingType.STRING,
        "Only this schema; % stands for anything.",
        None,
        group=_DATABASE,
    ),
    Setting(
        "catalog.pattern",
        SettingType.STRING,
        "Only this database.",
        None,
        group=_DATABASE,
        without_effect="a connection sees the tables of one database",
    ),
    Setting(
        "table.types", SettingType.LIST, "Kinds of tables: TABLE, VIEW.", ["TABLE"], Importance.LOW, _DATABASE
    ),
    Setting(
        "numeric.mapping",
        SettingType.STRING,
        "What NUMERIC columns become. none: Decimal. precision_only: integers where the scale is 0. "
        "best_fit: "
        "integers, "
        "or doubles where the column has a scale and at most 18 digits, or no precision. "
        "best_fit_eager_double: "
        "doubles "
        "wherever there is a scale.",
        "none",
        Importance.LOW,
        _DATABASE,
        choices=("none", "precision_only", "best_fit", "best_fit_eager_double"),
    ),
    Setting(
        "mode",
        SettingType.STRING,
        "bulk: all rows each time. incrementing: rows with a higher number. timestamp: rows with a later "
        "time. "
        "timestamp+incrementing: rows with a later time, those of one time by number.",
        REQUIRED,
        Importance.HIGH,
        _MODE,
        choices=MODES,
    ),
    Setting(
        "incrementing.column.name",
        SettingType.STRING,
        "The column of the number; empty: the one that the database counts.",
        "",
        Importance.MEDIUM,
        _MODE,
    ),
    Setting("incrementing.initial", SettingType.LONG, "Begin after this number.", -1, Importance.LOW, _MODE),
    Setting(
        "timestamp.column.name",
        SettingType.LIST,
        "The column of the time; of several the first that is not null.",
        [],
        Importance.MEDIUM,
        _MODE,
    ),
    Setting(
        "timestamp.initial",
        SettingType.LONG,
        "Begin after this time, in milliseconds since 1970; -1: now. Left out: all rows.",
        None,
        Importance.LOW,
        _MODE,
    ),
    Setting(
        "validate.non.null",
        SettingType.BOOLEAN,
        "Refuse tables whose number column, or all of whose time columns, may be null.",
        True,
        Importance.LOW,
        _MODE,
    ),
    Setting(
        "query",
        SettingType.STRING,
        "A query instead of tables; conditions of the mode are put around it.",
        "",
        Importance.MEDIUM,
        _MODE,
    ),
    Setting("query.suffix", SettingType.STRING, "Put behind every query.", "", Importance.LOW, _MODE),
    Setting(
        "topic.prefix",
        SettingType.STRING,
        "Before the table's name in the topic's; with a query the whole name.",
        REQUIRED,
        Importance.HIGH,
        _CONNECTOR,
    ),
    Setting(
        "poll.interval.ms",
        SettingType.INT,
        "Milliseconds between queries of a table.",
        5_000,
        group=_CONNECTOR,
    ),
    Setting("batch.max.rows", SettingType.INT, "Rows that are fetched together.", 5_000, group=_CONNECTOR),
    Setting(
        "table.poll.interval.ms",
        SettingType.LONG,
        "Milliseconds between looks for new and dropped tables.",
        60_000,
        Importance.LOW,
        _CONNECTOR,
    ),
    Setting(
        "timestamp.delay.interval.ms",
        SettingType.LONG,
        "Rows younger than this wait, so that transactions that began earlier can end before.",
        0,
        Importance.MEDIUM,
        _CONNECTOR,
    ),
)


def check_source(settings: Mapping[str, Any]) -> dict[str, list[str]]:
    """What contradicts itself among SOURCE_SETTINGS."""
    wrong: dict[str, list[str]] = {}
    mode, query = settings["mode"], settings["query"]
    if "timestamp" in mode and not settings["timestamp.column.name"]:
        wrong["timestamp.column.name"] = [f"mode={mode} needs the column of the time"]
    if "incrementing" in mode and query and not settings["incrementing.column.name"]:
        wrong["incrementing.column.name"] = [f"mode={mode} with a query needs the column of the number"]
    chosen = [
        name
        for name in ("table.whitelist", "table.blacklist", "table.include.list", "table.exclude.list")
        if settings[name]
    ]
    if query and chosen:
        wrong["query"] = [f"a query has no tables to choose: leave {', '.join(chosen)} out, or the query"]
    if settings["table.whitelist"] and settings["table.blacklist"]:
        wrong["table.blacklist"] = ["table.whitelist and table.blacklist cannot be given together"]
    return wrong
