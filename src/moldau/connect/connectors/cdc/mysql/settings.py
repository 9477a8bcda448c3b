"""Settings of the MySQL and MariaDB connectors: Debezium's names and defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moldau.connect.connectors.cdc.choice import TABLE_SETTINGS, check_lists
from moldau.connect.connectors.cdc.postgres.settings import EVENT_SETTINGS
from moldau.connect.settings import REQUIRED, Importance, Setting, SettingType

_CONNECTION, _SNAPSHOT, _VALUES = "Connection", "Snapshot", "Values"
_UNUSED = {"heartbeat.action.query", "message.key.columns", "provide.transaction.metadata"}
S = SettingType

MYSQL_SETTINGS = (
    Setting("database.hostname", S.STRING, "The server.", REQUIRED, Importance.HIGH, _CONNECTION),
    Setting("database.port", S.INT, "Its port.", 3306, Importance.HIGH, _CONNECTION),
    Setting(
        "database.user",
        S.STRING,
        "A user with REPLICATION SLAVE, REPLICATION CLIENT, SELECT.",
        REQUIRED,
        Importance.HIGH,
        _CONNECTION,
    ),
    Setting("database.password", S.PASSWORD, "Its password.", None, Importance.HIGH, _CONNECTION),
    Setting(
        "database.server.id",
        S.LONG,
        "A number that no other reader of the log has; empty: chosen by chance.",
        None,
        Importance.HIGH,
        _CONNECTION,
    ),
    Setting(
        "database.include.list",
        S.LIST,
        "Regular expressions of databases: what is captured.",
        [],
        Importance.HIGH,
        "Tables",
    ),
    Setting(
        "database.exclude.list",
        S.LIST,
        "Regular expressions of databases: what is not.",
        [],
        Importance.MEDIUM,
        "Tables",
    ),
    *TABLE_SETTINGS,
    Setting(
        "snapshot.mode",
        S.STRING,
        "initial: rows that are there, then changes. initial_only: then nothing. no_data "
        "(never): changes alone. when_needed: rows again if the log was purged.",
        "initial",
        Importance.MEDIUM,
        _SNAPSHOT,
        choices=("initial", "initial_only", "no_data", "never", "when_needed"),
    ),
    Setting(
        "snapshot.fetch.size",
        S.LONG,
        "Rows that a snapshot hands on together.",
        10_240,
        Importance.LOW,
        _SNAPSHOT,
    ),
    Setting(
        "signal.data.collection",
        S.STRING,
        "A table (`database.table`) whose new rows are orders to this connector.",
        None,
        Importance.MEDIUM,
        _SNAPSHOT,
    ),
    Setting(
        "incremental.snapshot.chunk.size",
        S.LONG,
        "Rows that an incremental snapshot reads at a time.",
        1024,
        Importance.LOW,
        _SNAPSHOT,
    ),
    Setting(
        "time.precision.mode",
        S.STRING,
        "Dates and times: adaptive_time_microseconds or connect (milliseconds).",
        "adaptive_time_microseconds",
        Importance.MEDIUM,
        _VALUES,
        choices=("adaptive_time_microseconds", "connect"),
    ),
    *(each for each in EVENT_SETTINGS if each.name not in _UNUSED),
    Setting(
        "schema.history.internal.kafka.topic",
        S.STRING,
        "Debezium's.",
        "",
        Importance.LOW,
        _CONNECTION,
        without_effect="the log itself describes its tables (binlog_row_metadata=FULL)",
    ),
    Setting(
        "schema.history.internal.kafka.bootstrap.servers",
        S.STRING,
        "Debezium's.",
        "",
        Importance.LOW,
        _CONNECTION,
        without_effect="no history is kept there",
    ),
    Setting(
        "include.schema.changes",
        S.BOOLEAN,
        "Debezium's.",
        True,
        Importance.LOW,
        _CONNECTION,
        without_effect="changes of tables are followed, and no records are made of them",
    ),
)


def check_mysql(settings: Mapping[str, Any]) -> dict[str, list[str]]:
    """What contradicts itself."""
    wrong = check_lists(settings, "database")
    unknown = [each for each in settings["skipped.operations"] if each not in ("c", "u", "d", "t", "none")]
    if unknown:
        wrong["skipped.operations"] = [f"{unknown[0]} is not one of c, u, d, t, none"]
    return wrong
