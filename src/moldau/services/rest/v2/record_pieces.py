"""The records in a request's body, a piece of the body after the other.

A parser holds the event loop (in a thread, too: it holds the interpreter), so a body with very many records
is not parsed at once. It is cut where one record ends and the next begins, which is found by trying:

    {"value_schema_id": 1, "records": [{...},{...},{...} , {...},{...}, ...]}
                                       [ piece          ]  [ piece ...
                                                      ^ ^
    between "}" and "{" somewhere after 32 KiB; if what is before is no list of records, the place was
    within a record (or a text): the piece becomes twice as large

A piece that is valid JSON, begun at a record's beginning, ends at a record's end. So the records are those of
the whole body, whatever is in them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from moldau.services.http.bodies import parse_json
from moldau.services.http.problems import HttpProblem

PIECE_BYTES = 32 * 1024
_NAME = b'"records"'
_LIST = re.compile(rb'"records"[ \t\r\n]*:[ \t\r\n]*\[')
_BETWEEN = re.compile(rb"\}[ \t\r\n]*,[ \t\r\n]*\{")


class RecordPieces:
    """Iterate, then look at `fields`. HttpProblem 400 if the body is not JSON."""

    def __init__(self, body: bytes, depth_max: int) -> None:
        self.fields: Any = None
        """The body without its records, if it was cut: `records` is an empty list then."""
        self._body = body
        self._depth_max = depth_max
        self._begun = self._head()

    @property
    def is_cut(self) -> bool:
        """Whether the body is parsed a piece at a time; else it is parsed whole."""
        return self._begun[0] is not None

    def __iter__(self) -> Iterator[list[Any]]:
        """Lists of records, in order; none for a body that is not cut."""
        head, position = self._begun
        if head is None:
            self.fields = self._parsed(self._body)
            return
        size_bytes = PIECE_BYTES
        while (between := _BETWEEN.search(self._body, position + size_bytes)) is not None:
            try:
                piece = self._parsed(b"[" + self._body[position : between.start() + 1] + b"]")
            except HttpProblem:
                size_bytes *= 2
                continue
            yield piece
            position, size_bytes = between.end() - 1, PIECE_BYTES
        rest = self._parsed(b'{"records":[' + self._body[position:])
        yield rest["records"]
        self.fields = {**head, **rest, "records": []}

    def _head(self) -> tuple[dict[str, Any] | None, int]:
        """What is before the records, and where they begin; None for a body that is better parsed whole."""
        begun = None
        if len(self._body) > 2 * PIECE_BYTES and self._body.count(_NAME) == 1:
            begun = _LIST.search(self._body)
        if begun is None:
            return None, 0
        try:
            head = self._parsed(self._body[: begun.start()] + b'"records":[]}')
        except HttpProblem:
            return None, 0
        return head, begun.end()

    def _parsed(self, text: bytes) -> Any:
        return parse_json(text, self._depth_max)
