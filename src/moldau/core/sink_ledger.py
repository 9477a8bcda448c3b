"""Committed offsets that are no places in a topic: the ledgers of exactly-once sinks.

A sink on Spark notes the number of the last micro-batch that it has written as a committed offset, within the
transaction that wrote it (moldau.client.ledger has the whole story). Such an offset has no lag, and moving it
would make the sink write a micro-batch twice. What tells it from others is its metadata:

    {"stream":"7c1e...","run":"90ab...","turn":3,"before":[...]}
"""

import json

LEDGER_FIELDS = frozenset({"stream", "run", "turn", "before"})
_DECODER = json.JSONDecoder()
_BEGINNING = '{"stream":'


def is_sink_ledger(metadata: str | None) -> bool:
    """Whether an offset with this metadata is a micro-batch's number.

    What follows the entry does not matter: librdkafka's admin client adds bytes that happen to lie behind it.
    """
    if not metadata or not metadata.startswith(_BEGINNING):
        return False  # nearly every offset there is, so this must be quick
    try:
        entry, _ = _DECODER.raw_decode(metadata)
    except ValueError:
        return False
    return bool(entry.keys() == LEDGER_FIELDS)
