"""The messages between broker and worker process: JSON, each with its length before it.

    | length 4 | {"job": {...}} or {"cancel": true}                                           to the worker
    | length 4 | {"progress": [...]}, {"result": {...}} or {"failure": {"kind": ...}}         from it

JSON and not pickle, so that a damaged pipe gives an error and never runs code.
"""

import dataclasses
import json
from typing import Any

from moldau.broker.log.compaction.job import (
    Cancelled,
    CleanError,
    CleanJob,
    CleanResult,
    Group,
    LastRecord,
    Source,
    Statistics,
    Uncleanable,
    UnreadableBatch,
    WorkerLost,
)
from moldau.broker.log.state.transaction_index import AbortedTransaction

LENGTH_BYTES = 4
MESSAGE_BYTES_MAX = 1 << 30
_FAILURES: dict[str, type[CleanError]] = {
    "cancelled": Cancelled,
    "uncleanable": Uncleanable,
    "lost": WorkerLost,
    "error": CleanError,
}


def frame(message: dict[str, Any]) -> bytes:
    """The message as it goes through the pipe."""
    body = json.dumps(message, separators=(",", ":")).encode()
    return len(body).to_bytes(LENGTH_BYTES, "big") + body


class Unframer:
    """Cuts what comes through the pipe into messages again."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[dict[str, Any]]:
        """The messages that are complete now; ValueError when these cannot be messages."""
        self._buffer += data
        messages: list[dict[str, Any]] = []
        while len(self._buffer) >= LENGTH_BYTES:
            size = int.from_bytes(self._buffer[:LENGTH_BYTES], "big")
            if size > MESSAGE_BYTES_MAX:
                raise ValueError(f"a message of {size} bytes")
            if len(self._buffer) < LENGTH_BYTES + size:
                break
            message = json.loads(self._buffer[LENGTH_BYTES : LENGTH_BYTES + size])
            if not isinstance(message, dict):
                raise ValueError("a message that is no object")
            messages.append(message)
            del self._buffer[: LENGTH_BYTES + size]
        return messages


def job_to_json(job: CleanJob) -> dict[str, Any]:
    """The job as plain values."""
    return {field.name: getattr(job, field.name) for field in dataclasses.fields(job)}


def job_from_json(fields: dict[str, Any]) -> CleanJob:
    """The job again; TypeError when the fields are not those of a job."""
    return CleanJob(
        **{
            **fields,
            "sources": tuple(Source(*source) for source in fields["sources"]),
            "aborted": tuple(AbortedTransaction(*entry) for entry in fields["aborted"]),
            "last_records": tuple(LastRecord(*last) for last in fields["last_records"]),
        }
    )


def result_to_json(result: CleanResult) -> dict[str, Any]:
    """The result as plain values."""
    return {
        "groups": result.groups,
        "cleaned_until_offset": result.cleaned_until_offset,
        "statistics": dataclasses.asdict(result.statistics),
    }


def result_from_json(fields: dict[str, Any]) -> CleanResult:
    """The result again; TypeError when the fields are not those of a result."""
    return CleanResult(
        tuple(Group(tuple(sources), *rest) for sources, *rest in fields["groups"]),
        fields["cleaned_until_offset"],
        Statistics(**fields["statistics"]),
    )


def failure_to_json(error: Exception) -> dict[str, Any]:
    """Why the job has failed."""
    if isinstance(error, OSError):
        return {"kind": "disk", "errno": error.errno, "message": error.strerror, "path": error.filename}
    if isinstance(error, MemoryError):
        return {"kind": "lost", "message": "the process that compacts ran out of memory"}
    for kind, failure in _FAILURES.items():
        if type(error) is failure:
            return {"kind": kind, "message": str(error), "batch": getattr(error, "batch", None)}
    return {"kind": "error", "message": f"{type(error).__name__}: {error}"}


def failure_from_json(fields: dict[str, Any]) -> Exception:
    """The same as an exception."""
    if fields["kind"] == "disk":
        return OSError(fields["errno"], fields["message"], fields["path"])
    if fields["kind"] == "uncleanable":
        batch = fields["batch"]
        return Uncleanable(fields["message"], None if batch is None else UnreadableBatch(*batch))
    return _FAILURES[fields["kind"]](fields["message"])
