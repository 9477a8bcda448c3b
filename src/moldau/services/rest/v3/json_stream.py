"""Cuts a stream of bytes into the JSON objects that follow each other in it.

    {"value": {...}} {"value": {...}}
    {"value": ...            what came so far; the rest is in the next piece

Objects may be separated by white space, or be the elements of one array. Nothing is parsed here: only
strings, braces and brackets are told apart. Each byte is looked at once, however the pieces are cut, and what
is kept is at most one unfinished object.
"""

from __future__ import annotations

import re

from moldau.services.http.problems import HttpProblem

_SEPARATORS = re.compile(rb"[ \t\r\n,\[\]]*")
_OUTSIDE = re.compile(rb'["{}\[\]]')
_IN_STRING = re.compile(rb'["\\]')
_QUOTE, _BACKSLASH = 0x22, 0x5C
_OPENING = b"{["


class JsonSplitter:
    """The objects of one stream. Raises HttpProblem 400 for what is none, 413 for one that is too large."""

    def __init__(self, bytes_max: int, depth_max: int) -> None:
        self._bytes_max = bytes_max
        self._depth_max = depth_max
        self._buffer = bytearray()
        self._position = 0
        self._depth = 0
        self._in_string = False

    @property
    def unfinished_bytes(self) -> int:
        """The bytes of the object that has not ended."""
        return len(self._buffer)

    def feed(self, data: bytes) -> list[bytes]:
        """The objects that these bytes complete."""
        self._buffer += data
        found: list[bytes] = []
        start = 0
        end = len(self._buffer)
        while self._position < end:
            if not self._depth:
                start = self._next_start(end)
            elif self._in_string:
                self._scan_string(end)
            elif self._scan_outside(end):
                found.append(bytes(self._buffer[start : self._position]))
        consumed = start if self._depth else min(self._position, end)
        del self._buffer[:consumed]
        self._position -= consumed
        if len(self._buffer) > self._bytes_max:
            raise HttpProblem(413, f"A record is larger than {self._bytes_max} bytes.")
        return found

    def end(self) -> None:
        """The stream has ended."""
        if self._depth:
            raise HttpProblem(400, "The request's body ends within a JSON object.")

    def _next_start(self, end: int) -> int:
        """Skip to the next object; its start."""
        match = _SEPARATORS.match(self._buffer, self._position)
        assert match is not None
        start = self._position = match.end()
        if start < end:
            if self._buffer[start] != _OPENING[0]:
                raise HttpProblem(400, "The request's body is no JSON object, or no sequence of them.")
            self._depth = 1
            self._position += 1
        return start

    def _scan_string(self, end: int) -> None:
        match = _IN_STRING.search(self._buffer, self._position)
        if match is None:
            self._position = end
        elif self._buffer[match.start()] == _BACKSLASH:
            self._position = match.end() + 1  # what is escaped may be in the next piece
        else:
            self._position, self._in_string = match.end(), False

    def _scan_outside(self, end: int) -> bool:
        """Go on to the next brace, bracket or quote; whether the object ended with it."""
        match = _OUTSIDE.search(self._buffer, self._position)
        if match is None:
            self._position = end
            return False
        self._position = match.end()
        byte = self._buffer[match.start()]
        if byte == _QUOTE:
            self._in_string = True
        elif byte in _OPENING:
            self._depth += 1
            if self._depth > self._depth_max:
                raise HttpProblem(400, f"The request's JSON is nested deeper than {self._depth_max} levels.")
        else:
            self._depth -= 1
        return not self._depth
