"""`--set` of `moldau connect offsets`: orders:0=812 of a sink, {"filename": "a"}={"position": 30} of a
source."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from moldau.tools.shared.errors import UsageError


def parse_offsets(texts: Sequence[str]) -> list[dict[str, Any]]:
    """Rows as REST takes them. UsageError."""
    return [_of_source(text) if text.lstrip().startswith("{") else _of_sink(text) for text in texts]


def _of_sink(text: str) -> dict[str, Any]:
    where, equals, offset = text.rpartition("=")
    topic, colon, partition = where.rpartition(":")
    if not (equals and colon and topic and partition.isdigit() and (offset.isdigit() or offset == "null")):
        raise UsageError(f"--set {text} is not TOPIC:PARTITION=OFFSET, as orders:0=812 (null forgets it)")
    return {
        "partition": {"kafka_topic": topic, "kafka_partition": int(partition)},
        "offset": None if offset == "null" else {"kafka_offset": int(offset)},
    }


def _of_source(text: str) -> dict[str, Any]:
    try:
        partition, end = json.JSONDecoder().raw_decode(text.lstrip())
        rest = text.lstrip()[end:].lstrip()
        if not rest.startswith("="):
            raise ValueError
        offset = json.loads(rest[1:])
        if not (offset is None or isinstance(offset, dict)):
            raise ValueError
    except ValueError:
        raise UsageError(
            f'--set {text} is not JSON=JSON, as {{"filename": "a"}}={{"position": 30}} (null forgets it)'
        ) from None
    return {"partition": partition, "offset": offset}
