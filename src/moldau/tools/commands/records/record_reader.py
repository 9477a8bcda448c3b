r"""Reads records from a byte stream by a `-f` template, for `moldau produce`.

A field is read by its size, if the template has one before it (`%V{big32}%v`, `%K{3}%k`, `%V %v\n`),
otherwise up to the literal text that follows it (`%k %v\n`: the key ends at the first space, the value at the
end of the line). A last field without following text takes the rest of the input.

The stream is read in pieces of bounded size, and a record's bytes are in memory once. A last line without a
newline is a record too.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

from moldau.tools.commands.records.number_formats import fixed_size, parse_fixed_number
from moldau.tools.commands.records.template import Field, Part, parse_template
from moldau.tools.shared.errors import CommandError, UsageError

READ_BYTES = 1 << 16
RECORD_BYTES_MAX = 256 * 1024 * 1024


@dataclass(slots=True)
class InputRecord:
    """One record of the input; None for what the template does not mention."""

    topic: str | None = None
    key: bytes | None = None
    value: bytes | None = None
    partition: int | None = None
    timestamp_ms: int | None = None
    headers: list[tuple[str, bytes]] = field(default_factory=list)


class _Ended(Exception):
    """The input ended inside a record."""


class ByteStream:
    """A byte stream with look-ahead: reads exact sizes or up to delimiters, and holds one record at most."""

    def __init__(self, source: BinaryIO) -> None:
        self._source = source
        self._held = bytearray()
        self._start = 0
        self._ended = False
        self.consumed_bytes = 0

    def _fill(self) -> bool:
        if self._ended:
            return False
        del self._held[: self._start]
        self._start = 0
        # read1 gives what is there: a person who types a line sees it sent at once.
        read = getattr(self._source, "read1", self._source.read)
        piece = read(READ_BYTES)
        if not piece:
            self._ended = True
            return False
        self._held += piece
        if len(self._held) > RECORD_BYTES_MAX:
            raise CommandError(
                "a single record of the input is longer than 256 MiB: does the format fit the input?"
            )
        return True

    def at_end(self) -> bool:
        """Whether nothing is left."""
        return len(self._held) == self._start and not self._fill()

    def take(self, size: int) -> bytes:
        """Read exactly `size` bytes."""
        while len(self._held) - self._start < size:
            if not self._fill():
                raise _Ended
        return self._advance(size)

    def take_until(self, delimiter: bytes, *, end_will_do: bool) -> bytes:
        """Read up to the delimiter and drop it; with `end_will_do`, the end of the input counts as one."""
        searched = 0
        while True:
            found = self._held.find(delimiter, self._start + searched)
            if found >= 0:
                taken = self._advance(found - self._start)
                self._advance(len(delimiter))
                return taken
            searched = max(len(self._held) - self._start - len(delimiter) + 1, 0)
            if not self._fill():
                if not end_will_do:
                    raise _Ended
                return self._advance(len(self._held) - self._start)

    def take_digits(self) -> bytes:
        """Read decimal digits and a sign."""
        size = 0
        while True:
            while len(self._held) - self._start <= size:
                if not self._fill():
                    return self._advance(size)
            if not (
                48 <= self._held[self._start + size] <= 57 or (size == 0 and self._held[self._start] == 45)
            ):
                return self._advance(size)
            size += 1

    def take_lines(self) -> list[bytes]:
        """Read all complete lines in the buffer, at least one. At the end a last line without newline,
        then nothing.
        """
        while (end := self._held.rfind(b"\n", self._start)) < 0:
            if not self._fill():
                rest = self.take_rest()
                return [rest] if rest else []
        lines = self._advance(end + 1 - self._start).split(b"\n")
        lines.pop()
        return lines

    def take_rest(self) -> bytes:
        """Read all that is left."""
        while self._fill():
            pass
        return self._advance(len(self._held) - self._start)

    def _advance(self, size: int) -> bytes:
        taken = bytes(self._held[self._start : self._start + size])
        self._start += size
        self.consumed_bytes += size
        return taken


def read_records(source: ByteStream, template: str) -> Iterator[InputRecord]:
    """Yield the records of a stream. CommandError, with the position, where it does not match the
    template.
    """
    parts = parse_template(template)
    _check_readable(parts)
    if parts == (Field("v"), b"\n"):
        yield from _read_values(source)
        return
    if len(parts) == 4 and (parts[0], parts[2], parts[3]) == (Field("k"), Field("v"), b"\n"):
        separator = parts[1]
        if isinstance(separator, bytes) and b"\n" not in separator:
            yield from _read_keyed(source, separator)
            return
    number = 0
    while not source.at_end():
        number += 1
        record = InputRecord()
        try:
            _read_parts(source, parts, record)
        except _Ended:
            raise CommandError(
                f"the input ends within record {number} (byte {source.consumed_bytes}) of this format"
            ) from None
        except (ValueError, binascii.Error) as problem:
            raise CommandError(
                f"record {number} (near byte {source.consumed_bytes}) does not fit the format: {problem}"
            ) from None
        yield record


def _read_values(source: ByteStream) -> Iterator[InputRecord]:
    """Read a value a line, many lines at a time: the usual input."""
    while lines := source.take_lines():
        for line in lines:
            yield InputRecord(value=line)


def _read_keyed(source: ByteStream, separator: bytes) -> Iterator[InputRecord]:
    """Read a key, a separator and a value a line, many lines at a time."""
    number = 0
    while lines := source.take_lines():
        for line in lines:
            number += 1
            key, found, value = line.partition(separator)
            if not found:
                shown = separator.decode("utf-8", "replace")
                raise CommandError(f"line {number} does not fit the format: it has no {shown!r}")
            yield InputRecord(key=key, value=value)


def _check_readable(parts: tuple[Part, ...]) -> None:
    fields = [part for part in parts if isinstance(part, Field)]
    if not fields:
        raise UsageError("the format names no field: it needs at least %v or %k")
    for unfit in fields:
        if unfit.letter in "oeia":
            raise UsageError(f"%{unfit.letter} cannot be produced: the broker sets it")


def _read_parts(source: ByteStream, parts: tuple[Part, ...], record: InputRecord) -> None:
    sizes: dict[str, int] = {}
    header_count = 0
    skip_literal = False
    for index, part in enumerate(parts):
        if isinstance(part, bytes):
            if not skip_literal:
                _expect(source, part, last=index == len(parts) - 1)
            skip_literal = False
        elif part.letter in "TKVH":
            count = _read_number(source, part)
            if part.letter == "H":
                header_count = count
            else:
                sizes[part.letter.lower()] = count
        elif part.letter in "pd":
            number = _read_number(source, part)
            if part.letter == "p":
                record.partition = number
            else:
                record.timestamp_ms = number
        elif part.letter == "h":
            for _ in range(header_count):
                name, value = _read_header(source, part)
                record.headers.append((name, value))
        else:
            following = parts[index + 1] if index + 1 < len(parts) else None
            data = _read_text(source, part, sizes.get(part.letter), following, last=index + 2 >= len(parts))
            skip_literal = part.letter not in sizes and isinstance(following, bytes)
            if part.letter == "t":
                record.topic = data.decode()
            elif part.letter == "k":
                record.key = data
            else:
                record.value = data


def _read_header(source: ByteStream, part: Field) -> tuple[str, bytes]:
    inner = InputRecord()
    _read_parts(source, part.header, inner)
    return (inner.key or b"").decode(), inner.value or b""


def _expect(source: ByteStream, literal: bytes, *, last: bool) -> None:
    if last and literal == b"\n" and source.at_end():
        return
    found = source.take(len(literal))
    if found != literal:
        raise ValueError(f"expected {literal!r}, found {found!r}")


def _read_number(source: ByteStream, part: Field) -> int:
    form = part.modifier
    if form.isdigit():
        # %V{4}: the length is written in the template itself and takes nothing from the input.
        return int(form)
    size = fixed_size(form)
    if size is not None:
        return parse_fixed_number(source.take(size), form)
    if form == "bool":
        word = source.take(4)
        return 1 if word == b"true" else int(source.take(1) != b"e")
    digits = source.take_digits()
    if not digits:
        raise ValueError(f"%{part.letter} expects a number")
    return int(digits)


def _read_text(
    source: ByteStream, part: Field, size: int | None, following: Part | None, *, last: bool
) -> bytes:
    if size is not None:
        data = source.take(size)
    elif isinstance(following, bytes):
        data = source.take_until(following, end_will_do=last and following == b"\n")
    elif following is None:
        data = source.take_rest()
    else:
        raise UsageError(
            f"the format does not say where %{part.letter} ends: put a text or a size between the fields"
        )
    if part.modifier == "hex":
        return bytes.fromhex(data.decode())
    if part.modifier == "base64":
        return base64.b64decode(data, validate=True)
    if part.modifier == "json":
        return json.dumps(json.loads(data), separators=(",", ":"), ensure_ascii=False).encode()
    if part.modifier:
        raise UsageError(f"%{part.letter}{{{part.modifier}}} cannot be read: text takes hex, base64 or json")
    return data
