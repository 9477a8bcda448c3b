"""Settings of the PostgreSQL connector: Debezium's names and defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moldau.connect.connectors.cdc.choice import TABLE_SETTINGS, check_lists
from moldau.connect.connectors.cdc.converting import FAILURE_MODES
from moldau.connect.settings import REQUIRED, Importance, Setting, SettingType

_CONNECTION, _SLOT, _SNAPSHOT, _EVENTS, _VALUES, _ADVANCED = (
    "Connection",
    "Replication",
    "Snapshot",
    "Events",
    "Values",
    "Advanced",
)
S = SettingType


def _text(name: str, doc: str, default: Any, group: str, *choices: str) -> Setting:
    return Setting(name, S.STRING, doc, default, Importance.MEDIUM, group, choices=choices)


def _number(name: str, doc: str, default: Any, group: str) -> Setting:
    return Setting(name, S.LONG, doc, default, Importance.LOW, group)


def _without(name: str, default: Any, why: str) -> Setting:
    return Setting(name, S.STRING, "Debezium's.", default, Importance.LOW, _ADVANCED, without_effect=why)


EVENT_SETTINGS = (
    Setting(
        "topic.prefix",
        S.STRING,
        "The first part of topics' names; the name of the server.",
        REQUIRED,
        Importance.HIGH,
        _EVENTS,
    ),
    Setting(
        "tombstones.on.delete",
        S.BOOLEAN,
        "After a deletion a record of the key alone, for compaction.",
        True,
        Importance.MEDIUM,
        _EVENTS,
    ),
    Setting(
        "skipped.operations",
        S.LIST,
        "Left out: c (created), u (updated), d (deleted), t (truncated), or none.",
        ["t"],
        Importance.LOW,
        _EVENTS,
    ),
    Setting(
        "message.key.columns",
        S.LIST,
        "Keys of tables, parted by semicolons: `schema.table:column,column` (a regular expression "
        "before "
        "the "
        "colon). Empty: the primary key.",
        [],
        Importance.MEDIUM,
        _EVENTS,
    ),
    Setting(
        "provide.transaction.metadata",
        S.BOOLEAN,
        "Records of beginnings and ends of transactions in the topic PREFIX.transaction, and each "
        "change's "
        "place "
        "in its transaction.",
        False,
        Importance.LOW,
        _EVENTS,
    ),
    _number(
        "heartbeat.interval.ms",
        "Milliseconds between records in the topic of heartbeats; 0: none.",
        0,
        _EVENTS,
    ),
    _text(
        "topic.heartbeat.prefix", "The first part of the name of that topic.", "__debezium-heartbeat", _EVENTS
    ),
    _text(
        "heartbeat.action.query",
        "A statement that is run with each heartbeat, so that a quiet database moves on.",
        "",
        _EVENTS,
    ),
    _text(
        "schema.name.adjustment.mode",
        "How names of schemas are made valid.",
        "none",
        _EVENTS,
        "none",
        "avro",
        "avro_unicode",
    ),
    _text(
        "field.name.adjustment.mode",
        "How names of fields are made valid.",
        "none",
        _EVENTS,
        "none",
        "avro",
        "avro_unicode",
    ),
    _text(
        "decimal.handling.mode",
        "NUMERIC: precise (Decimal), double, string.",
        "precise",
        _VALUES,
        "precise",
        "double",
        "string",
    ),
    _text(
        "binary.handling.mode",
        "Bytes, or texts of them.",
        "bytes",
        _VALUES,
        "bytes",
        "base64",
        "base64-url-safe",
        "hex",
    ),
    _number("max.batch.size", "Events that are handed on together at most.", 2048, _ADVANCED),
    _number("poll.interval.ms", "Milliseconds to wait for changes at a time.", 500, _ADVANCED),
    _without("max.queue.size", "8192", "there is no queue: changes are read as they are written to Kafka"),
    _without("max.queue.size.in.bytes", "0", "there is no queue"),
    _text(
        "event.converting.failure.handling.mode",
        "A value that its column's type in records does not have: fail refuses the row, and errors.tolerance "
        "decides (Debezium's default is warn); warn and skip have null in its place, where the column may be "
        "null.",
        "fail",
        _VALUES,
        *FAILURE_MODES,
    ),
    _without("event.processing.failure.handling.mode", "fail", "see errors.tolerance"),
    _without("database.history.kafka.topic", "", "no history of the schema is kept there"),
    _without("snapshot.max.threads", "1", "a snapshot is read by one connection"),
)

POSTGRES_SETTINGS = (
    Setting(
        "database.hostname",
        S.STRING,
        "The server, or the folder of its Unix socket.",
        REQUIRED,
        Importance.HIGH,
        _CONNECTION,
    ),
    Setting("database.port", S.INT, "Its port.", 5432, Importance.HIGH, _CONNECTION),
    Setting(
        "database.user",
        S.STRING,
        "A user with the right REPLICATION.",
        REQUIRED,
        Importance.HIGH,
        _CONNECTION,
    ),
    Setting("database.password", S.PASSWORD, "Its password.", None, Importance.HIGH, _CONNECTION),
    Setting("database.dbname", S.STRING, "The database.", REQUIRED, Importance.HIGH, _CONNECTION),
    _text(
        "database.sslmode", "disable, allow, prefer, require, verify-ca, verify-full.", "prefer", _CONNECTION
    ),
    _text("database.sslrootcert", "Certificates that the server's is checked by.", None, _CONNECTION),
    _text("database.sslcert", "The client's certificate.", None, _CONNECTION),
    _text("database.sslkey", "Its key.", None, _CONNECTION),
    _text("plugin.name", "The plugin that writes changes out.", "pgoutput", _SLOT, "pgoutput"),
    _text("slot.name", "The replication slot: it keeps the log for this connector.", "debezium", _SLOT),
    Setting(
        "slot.drop.on.stop",
        S.BOOLEAN,
        "Drop the slot when the connector stops. Changes made until it starts again are lost.",
        False,
        Importance.LOW,
        _SLOT,
    ),
    _text("publication.name", "Which tables are published.", "dbz_publication", _SLOT),
    _text(
        "publication.autocreate.mode",
        "What to make where there is no such publication.",
        "all_tables",
        _SLOT,
        "all_tables",
        "filtered",
        "disabled",
        "no_tables",
    ),
    _number("status.update.interval.ms", "Milliseconds between reports to the server.", 10_000, _SLOT),
    Setting(
        "schema.include.list",
        S.LIST,
        "Regular expressions of schemas: what is captured.",
        [],
        Importance.MEDIUM,
        "Tables",
    ),
    Setting(
        "schema.exclude.list",
        S.LIST,
        "Regular expressions of schemas: what is not.",
        [],
        Importance.MEDIUM,
        "Tables",
    ),
    *TABLE_SETTINGS,
    _text(
        "snapshot.mode",
        "initial: rows that are there, then changes. initial_only: then nothing. always: at each "
        "start. no_data (never): changes alone. when_needed: rows again if the slot lost "
        "changes.",
        "initial",
        _SNAPSHOT,
        "initial",
        "initial_only",
        "always",
        "no_data",
        "never",
        "when_needed",
    ),
    _number("snapshot.fetch.size", "Rows that a snapshot hands on together.", 10_240, _SNAPSHOT),
    Setting(
        "snapshot.select.statement.overrides",
        S.LIST,
        "Tables with a SELECT of their own, in snapshot.select.statement.overrides.SCHEMA.TABLE.",
        [],
        Importance.LOW,
        _SNAPSHOT,
    ),
    _text(
        "signal.data.collection",
        "A table (`schema.table`) whose new rows are orders to this connector.",
        None,
        _SNAPSHOT,
    ),
    _number(
        "incremental.snapshot.chunk.size",
        "Rows that an incremental snapshot reads at a time.",
        1024,
        _SNAPSHOT,
    ),
    *EVENT_SETTINGS,
    _text(
        "time.precision.mode",
        "Dates and times: adaptive, adaptive_time_microseconds, or connect (milliseconds).",
        "adaptive",
        _VALUES,
        "adaptive",
        "adaptive_time_microseconds",
        "connect",
    ),
    _text("hstore.handling.mode", "json or map.", "json", _VALUES, "json", "map"),
    _text(
        "interval.handling.mode", "numeric (microseconds) or string.", "numeric", _VALUES, "numeric", "string"
    ),
    _text(
        "moldau.array.handling.mode",
        "Arrays: array, or json (a text, which may have several dimensions).",
        "array",
        _VALUES,
        "array",
        "json",
    ),
    _text(
        "unavailable.value.placeholder",
        "What stands for a large value that was not changed, and so is not in the log.",
        "__debezium_unavailable_value",
        _VALUES,
    ),
    _without("lsn.flush.mode", "connector", "only what is committed in Kafka is confirmed"),
    _without("flush.lsn.source", "true", "only what is committed in Kafka is confirmed"),
    _without("snapshot.locking.mode", "none", "a snapshot takes no locks"),
)


def check_postgres(settings: Mapping[str, Any]) -> dict[str, list[str]]:
    """What contradicts itself."""
    wrong = check_lists(settings, "schema")
    slot = settings["slot.name"]
    if not slot or not set(slot) <= set("abcdefghijklmnopqrstuvwxyz0123456789_") or len(slot) > 63:
        wrong["slot.name"] = ["a slot's name has a-z, 0-9 and _, and at most 63 characters"]
    unknown = [each for each in settings["skipped.operations"] if each not in ("c", "u", "d", "t", "none")]
    if unknown:
        wrong["skipped.operations"] = [f"{unknown[0]} is not one of c, u, d, t, none"]
    if settings["heartbeat.action.query"] and not settings["heartbeat.interval.ms"]:
        wrong["heartbeat.action.query"] = ["needs heartbeat.interval.ms"]
    return wrong
