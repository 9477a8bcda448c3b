"""Committed offsets that are ledger entries of exactly-once sinks, not positions.

A Spark sink stores the number of the last written micro-batch as a committed offset, in the transaction that
wrote it (moldau.client.ledger). Such an offset has no lag, and resetting it would make the sink write a
micro-batch twice. Its metadata identifies it:

    {"stream":"7c1e...","run":"90ab...","turn":3,"before":[...]}
"""

import json

LEDGER_FIELDS = frozenset({"stream", "run", "turn", "before"})
_DECODER = json.JSONDecoder()
_BEGINNING = '{"stream":'


def is_sink_ledger(metadata: str | None) -> bool:
    """Whether an offset with this metadata is a ledger entry.

    Bytes after the entry are ignored: librdkafka's admin client may append some.
    """
    if not metadata or not metadata.startswith(_BEGINNING):
        return False  # nearly every offset there is, so this must be quick
    try:
        entry, _ = _DECODER.raw_decode(metadata)
    except ValueError:
        return False
    return bool(entry.keys() == LEDGER_FIELDS)
