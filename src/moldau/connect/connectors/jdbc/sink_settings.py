"""Settings of the JDBC sink: Confluent's names and defaults; `moldau.offsets.table` is ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from zoneinfo import ZoneInfo

from moldau.connect.settings import Importance, Setting, SettingType, Width

_CONNECTION, _WRITES, _MAPPING, _DDL, _RETRIES = (
    "Connection",
    "Writes",
    "Data Mapping",
    "DDL Support",
    "Retries",
)


def _positive(value: Any) -> str | None:
    return None if value > 0 else "must be at least 1"


def known_zone(value: Any) -> str | None:
    """A check: the name of a time zone."""
    try:
        ZoneInfo(str(value))
    except (ValueError, OSError, KeyError):
        return f"{value} is no time zone (e.g. UTC, Europe/Prague)"
    return None


CONNECTION_SETTINGS = (
    Setting(
        "connection.url",
        SettingType.STRING,
        "The database: jdbc:postgresql://host:5432/db, jdbc:mysql://, jdbc:mariadb://, jdbc:sqlite:/path, "
        "or an "
        "address of SQLAlchemy's.",
        importance=Importance.HIGH,
        group=_CONNECTION,
        width=Width.LONG,
    ),
    Setting("connection.user", SettingType.STRING, "The user.", None, Importance.HIGH, _CONNECTION),
    Setting("connection.password", SettingType.PASSWORD, "The password.", None, Importance.HIGH, _CONNECTION),
    Setting(
        "dialect.name",
        SettingType.STRING,
        "Which product it is.",
        "",
        Importance.LOW,
        _CONNECTION,
        without_effect="connection.url says it",
    ),
    Setting(
        "connection.attempts",
        SettingType.INT,
        "Attempts to connect.",
        3,
        Importance.LOW,
        _CONNECTION,
        without_effect="a database that is away is tried again as max.retries says, and then by the worker",
    ),
    Setting(
        "connection.backoff.ms",
        SettingType.LONG,
        "Milliseconds between attempts to connect.",
        10_000,
        Importance.LOW,
        _CONNECTION,
        without_effect="see retry.backoff.ms",
    ),
    Setting(
        "quote.sql.identifiers",
        SettingType.STRING,
        "Whether names stand in quotes in statements. NEVER: the database folds them as it does (to lower "
        "or upper "
        "case).",
        "ALWAYS",
        Importance.MEDIUM,
        _CONNECTION,
        choices=("ALWAYS", "NEVER"),
    ),
    Setting(
        "db.timezone",
        SettingType.STRING,
        "The zone whose clock columns without a zone show.",
        "UTC",
        Importance.MEDIUM,
        _CONNECTION,
        check=known_zone,
    ),
)

SINK_SETTINGS = (
    *CONNECTION_SETTINGS,
    Setting(
        "insert.mode",
        SettingType.STRING,
        "insert: each record is a new row. upsert: a row of the same key is changed. update: only rows that "
        "exist "
        "are changed.",
        "insert",
        Importance.HIGH,
        _WRITES,
        choices=("insert", "upsert", "update"),
    ),
    Setting(
        "batch.size",
        SettingType.INT,
        "How many rows a transaction has at most.",
        10_000,
        Importance.MEDIUM,
        _WRITES,
        check=_positive,
    ),
    Setting(
        "delete.enabled",
        SettingType.BOOLEAN,
        "A record without a value deletes the row of its key; needs pk.mode=record_key.",
        False,
        Importance.MEDIUM,
        _WRITES,
    ),
    Setting(
        "table.types",
        SettingType.LIST,
        "Which kinds of tables are written to: TABLE, PARTITIONED TABLE, VIEW.",
        ["TABLE"],
        Importance.LOW,
        _WRITES,
    ),
    Setting(
        "moldau.offsets.table",
        SettingType.STRING,
        "The table (or schema.table) that remembers how far each partition is written; made if it is not "
        "there.",
        "moldau_offsets",
        Importance.LOW,
        _WRITES,
    ),
    Setting(
        "table.name.format",
        SettingType.STRING,
        "The name of the table (or schema.table); ${topic} stands for the topic.",
        "${topic}",
        Importance.MEDIUM,
        _MAPPING,
    ),
    Setting(
        "pk.mode",
        SettingType.STRING,
        "Where the columns of the primary key come from: nowhere, topic/partition/offset, the record's key, "
        "its "
        "value.",
        "none",
        Importance.HIGH,
        _MAPPING,
        choices=("none", "kafka", "record_key", "record_value"),
    ),
    Setting(
        "pk.fields",
        SettingType.LIST,
        "The columns of the primary key. Empty: all fields of the key or value. With a key that is one "
        "value: the "
        "column for it. With kafka: three names.",
        [],
        Importance.MEDIUM,
        _MAPPING,
    ),
    Setting(
        "fields.whitelist",
        SettingType.LIST,
        "Fields of the value to store; empty: all. Those of pk.fields are stored anyway.",
        [],
        Importance.MEDIUM,
        _MAPPING,
    ),
    Setting(
        "auto.create",
        SettingType.BOOLEAN,
        "Make a table that is not there, from the schema of its first records.",
        False,
        Importance.MEDIUM,
        _DDL,
    ),
    Setting(
        "auto.evolve",
        SettingType.BOOLEAN,
        "Add columns for fields that the table has none for.",
        False,
        Importance.MEDIUM,
        _DDL,
    ),
    Setting(
        "max.retries",
        SettingType.INT,
        "How often a transaction is tried again while the database is away or busy, before the worker hears "
        "of "
        "it.",
        10,
        Importance.MEDIUM,
        _RETRIES,
    ),
    Setting(
        "retry.backoff.ms",
        SettingType.INT,
        "Milliseconds before the first repetition; each further one waits twice as long, up to a minute.",
        3_000,
        Importance.MEDIUM,
        _RETRIES,
    ),
)


def check_sink(settings: Mapping[str, Any]) -> dict[str, list[str]]:
    """What contradicts itself among SINK_SETTINGS."""
    wrong: dict[str, list[str]] = {}
    mode, key, fields = settings["insert.mode"], settings["pk.mode"], settings["pk.fields"]
    if settings["delete.enabled"] and key != "record_key":
        wrong.setdefault("delete.enabled", []).append(
            "delete.enabled=true needs pk.mode=record_key: a tombstone has only its key"
        )
    if mode in ("upsert", "update") and key == "none":
        wrong.setdefault("pk.mode", []).append(
            f"insert.mode={mode} needs a primary key: set pk.mode to record_key, record_value or kafka"
        )
    if key == "kafka" and fields and len(fields) != 3:
        wrong.setdefault("pk.fields", []).append("with pk.mode=kafka give three names, or none")
    return wrong


def each_name(names: Sequence[str]) -> list[str]:
    """A list's entries without spaces and empty ones."""
    return [name.strip() for name in names if name.strip()]
