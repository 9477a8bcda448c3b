"""The bulk interface: two lines a document (what to do, and the document), an item a document in the answer.

    {"index":{"_index":"orders","_id":"17","version":812,"version_type":"external"}}
    {"id":17,"city":"Prague"}
    {"delete":{"_index":"orders","_id":"18","version":813,"version_type":"external"}}

With an external version, the record's offset, an older record never replaces a newer one, however often
and in which order
requests arrive. Refused for that reason (409) is as good as done.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import orjson

_CONFLICT, _NOT_FOUND = 409, 404
_BUSY = frozenset({429, 502, 503, 504})


class Method(Enum):
    """How a document is written."""

    INSERT = "INSERT"
    """The whole document."""
    UPSERT = "UPSERT"
    """Its fields, into the document that is there."""


@dataclass(frozen=True, slots=True)
class Document:
    """One row of a batch on its way."""

    row: int
    id: str
    body: bytes | None
    """None: a deletion."""
    version: int | None
    """External; None: the last to arrive counts."""

    def lines(self, index: str, method: Method) -> bytes:
        """For the request's body, the last line's end included."""
        head: dict[str, Any] = {"_index": index, "_id": self.id}
        if self.version is not None and (self.body is None or method is Method.INSERT):
            head |= {"version": self.version, "version_type": "external"}
        if self.body is None:
            return orjson.dumps({"delete": head}) + b"\n"
        if method is Method.UPSERT:
            head["retry_on_conflict"] = 5
            return orjson.dumps({"update": head}) + b'\n{"doc_as_upsert":true,"doc":' + self.body + b"}\n"
        return orjson.dumps({"index": head}) + b"\n" + self.body + b"\n"


@dataclass(frozen=True, slots=True)
class Refusal:
    """A document that was not taken."""

    document: Document
    status: int
    reason: str

    @property
    def may_succeed_later(self) -> bool:
        """The node was busy."""
        return self.status in _BUSY


def refusals_of(documents: Sequence[Document], answer: Mapping[str, Any]) -> list[Refusal]:
    """Which documents of a request were not taken. ValueError if the answer has not an item for each."""
    items = answer.get("items")
    if not isinstance(items, list) or len(items) != len(documents):
        raise ValueError("the answer does not have an item for each document")
    refused = []
    for document, item in zip(documents, items, strict=True):
        (result,) = item.values()
        status = int(result.get("status", 0))
        if _is_done(document, status):
            continue
        refused.append(Refusal(document, status, _reason(result.get("error"))))
    return refused


def _is_done(document: Document, status: int) -> bool:
    if 200 <= status < 300:
        return True
    if status == _CONFLICT and document.version is not None:
        return True
    return status == _NOT_FOUND and document.body is None


def _reason(error: Any) -> str:
    if not isinstance(error, Mapping):
        return str(error)
    cause = error.get("caused_by")
    inner = f": {_reason(cause)}" if isinstance(cause, Mapping) else ""
    # The reason of a document that cannot be parsed quotes the document's value up to its end; the cause
    # says it too.
    return f"{error.get('type')}: {error.get('reason')}{inner}"
