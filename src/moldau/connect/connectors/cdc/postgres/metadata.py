"""Records beside those of tables: heartbeats, beginnings and ends of transactions. Names are Debezium's."""

from __future__ import annotations

import time
from collections.abc import Sequence

from moldau.connect.batch import Batch
from moldau.connect.building import batch_of
from moldau.connect.connectors.cdc.naming import topic_name
from moldau.connect.schema import Schema, Type, array_schema, struct_schema

_TEXT, _LONG = Schema(Type.STRING), Schema(Type.INT64)
_HEARTBEAT_KEY = struct_schema({"serverName": _TEXT}, "io.debezium.connector.common.ServerNameKey", version=1)
_HEARTBEAT = struct_schema({"ts_ms": _LONG}, "io.debezium.connector.common.Heartbeat", version=1)
_COUNTS = struct_schema({"data_collection": _TEXT, "event_count": _LONG}, "event.collection", version=1)
_TRANSACTION_KEY = struct_schema(
    {"id": _TEXT}, "io.debezium.connector.common.TransactionMetadataKey", version=1
)
_TRANSACTION = struct_schema(
    {
        "status": _TEXT,
        "id": _TEXT,
        "event_count": Schema(Type.INT64, True),
        "data_collections": array_schema(_COUNTS, True),
        "ts_ms": _LONG,
    },
    "io.debezium.connector.common.TransactionMetadataValue",
    version=1,
)


def heartbeat(prefix: str, server: str) -> Batch:
    """One record."""
    topic = topic_name(prefix, server)
    now = [{"ts_ms": time.time_ns() // 1_000_000}]
    return batch_of(topic, now, _HEARTBEAT, [{"serverName": server}], _HEARTBEAT_KEY)


def transaction(server: str, name: str, time_us: int, counts: Sequence[tuple[str, int]] | None) -> Batch:
    """A beginning (without counts), or an end."""
    value = {
        "status": "BEGIN" if counts is None else "END",
        "id": name,
        "event_count": None if counts is None else sum(count for _, count in counts),
        "data_collections": None
        if counts is None
        else [{"data_collection": table, "event_count": count} for table, count in counts],
        "ts_ms": time_us // 1000,
    }
    topic = topic_name(server, "transaction")
    return batch_of(topic, [value], _TRANSACTION, [{"id": name}], _TRANSACTION_KEY)
