"""Bodies of requests: read whole, as JSON, or piece by piece; decompressed; never more than is allowed.

    read_bytes   the whole body
    read_json    the whole body as JSON: depth and size bounded; large ones are parsed in a worker thread
    pieces       the body as it comes, for requests whose answers begin before their bodies end

Memory follows the bytes that came: a piece of compressed data is unpacked 64 KiB at a time, and what is kept
counts against the budget that all requests share. A client that sends nothing for the idle timeout, or a
whole body slower than 1 KiB/s on the average after that time, gets 408.
"""

import asyncio
import json
import re
import zlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

import orjson
from starlette.requests import ClientDisconnect, Request

from moldau.common.core.json_steps import has_more_values
from moldau.services.http.context import context_of
from moldau.services.http.media_types import essence
from moldau.services.http.problems import HttpProblem, plain_problem, too_large

_UNPACKED_PIECE_BYTES = 64 * 1024
_PARSED_INLINE_BYTES_MAX = 128 * 1024
_ELEMENT_BYTES, _TEXT_BYTES, _LIST_BYTES, _OBJECT_BYTES, _MEMBER_BYTES = 40, 56, 88, 72, 176
"""Of Python's objects: a number and its place in a list; a short text; an empty list; an empty dict; what one
member makes a dict larger."""
_SLOW_BYTES_PER_SECOND = 1024
_LONG_DIGITS = re.compile(rb"[0-9]{19,}")
_INT64_MAX_DIGITS = b"9223372036854775807"
_AS_DIGITS = bytes(ord("0") if byte in b"0123456789" else ord(" ") for byte in range(256))
_NINETEEN_DIGITS = b"0" * len(_INT64_MAX_DIGITS)
_SEARCHED_PIECE_BYTES = 256 * 1024


async def read_bytes(request: Request, *, bytes_max: int | None = None) -> bytes:
    """The whole body, decompressed. HttpProblem 400, 408, 413, 415, 503."""
    context = context_of(request)
    bytes_max = context.body_bytes_max if bytes_max is None else bytes_max
    loop = asyncio.get_running_loop()
    started = loop.time()
    parts: list[bytes] = []
    total_bytes = 0
    async for piece in pieces(request, bytes_max=bytes_max):
        total_bytes += len(piece)
        context.hold(len(piece))
        parts.append(piece)
        spent = loop.time() - started
        if spent > context.idle_seconds + total_bytes / _SLOW_BYTES_PER_SECOND:
            raise HttpProblem(408, "the request's body comes too slowly", headers={"Connection": "close"})
    return parts[0] if len(parts) == 1 else b"".join(parts)


async def read_json(request: Request, *, bytes_max: int | None = None) -> Any:
    """The whole body as `json.loads` gives it. HttpProblem 400 if it is not JSON, and as `read_bytes`."""
    return await parse_held(request, await read_bytes(request, bytes_max=bytes_max))


async def parse_held(request: Request, body: bytes, *, values_max: int | None = None) -> Any:
    """As `parse_json`; a large body in a worker thread, and with what it is parsed to in the memory budget.

    HttpProblem 413, 503 as `RequestContext.hold`.
    """
    context = context_of(request)
    if len(body) <= _PARSED_INLINE_BYTES_MAX:
        return parse_json(body, context.json_depth_max, values_max=values_max)
    context.hold(await asyncio.to_thread(parsed_bytes, body))
    return await asyncio.to_thread(parse_json, body, context.json_depth_max, values_max=values_max)


def text_bytes(body: bytes) -> int:
    """What the texts in a JSON text take at most: one character beyond Latin-1 makes all of its text wide."""
    return len(body) if body.isascii() and b"\\u" not in body else 4 * len(body)


def parsed_bytes(body: bytes) -> int:
    """What Python's objects of a JSON text take at most, roughly, beside the text itself.

    A list of empty lists takes 30 times its text; texts of some length hardly more than theirs. What stands
    in strings counts too: an estimate that is too high for it.
    """
    return (
        text_bytes(body)
        + _ELEMENT_BYTES * body.count(b",")
        + _TEXT_BYTES * (body.count(b'"') // 2)
        + _LIST_BYTES * body.count(b"[")
        + _OBJECT_BYTES * body.count(b"{")
        + _MEMBER_BYTES * body.count(b'":')
    )


def parse_json(body: bytes, depth_max: int, *, values_max: int | None = None) -> Any:
    """JSON text; HttpProblem 400 where it is none, or nested deeper than `depth_max`. Integers are exact.

    HttpProblem 413 where it has more than `values_max` values: a parser would hold all threads for long.
    """
    if values_max is not None and len(body) > values_max and has_more_values(body, values_max):
        raise HttpProblem(413, f"the request's body is JSON of more than {values_max} values")
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise HttpProblem(400, f"the request's body is not JSON: {error}") from None
    _check_depth(value, depth_max)
    return _exact(body) if _has_long_integer(body) else value


def parse_shallow_json(text: bytes) -> Any:
    """As `parse_json`, of a text whose depth is known to be small."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise HttpProblem(400, f"Error processing JSON: {error}") from None
    return _exact(text) if _has_long_integer(text) else value


def _has_long_integer(text: bytes) -> bool:
    """Whether there may be an integer beyond 64 bits, of which orjson makes a float that is only near it.

    A piece at a time: a search through megabytes would hold all threads.
    """
    for start in range(0, len(text), _SEARCHED_PIECE_BYTES):
        piece = text[start : start + _SEARCHED_PIECE_BYTES + 2 * len(_INT64_MAX_DIGITS)]
        if _NINETEEN_DIGITS in piece.translate(_AS_DIGITS) and any(
            len(each[0]) > len(_INT64_MAX_DIGITS) or each[0] > _INT64_MAX_DIGITS
            for each in _LONG_DIGITS.finditer(piece)
        ):
            return True
    return False


def _exact(text: bytes) -> Any:
    try:
        return json.loads(text)
    except RecursionError:
        raise HttpProblem(400, "the request's body is JSON nested too deeply") from None
    except ValueError:  # Python's own limit: making a number of digits takes quadratic time
        raise HttpProblem(400, "the request's body has a number of more than 4300 digits") from None


def _check_depth(value: Any, depth_max: int) -> None:
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(depth_max):
        if not level:
            return
        level = [
            child
            for node in level
            for child in (node.values() if isinstance(node, dict) else node)
            if isinstance(child, dict | list)
        ]
    if level:
        raise HttpProblem(400, f"the request's body is JSON nested deeper than {depth_max} levels")


async def pieces(request: Request, *, bytes_max: int | None = None) -> AsyncIterator[bytes]:
    """The body as it comes, decompressed; `bytes_max` bounds all of it (None: no bound, for streams).

    A piece is at most what one read of the socket brought, or 64 KiB of what was compressed; the next is read
    only when it is asked for. HttpProblem 400, 408, 413, 415.
    """
    _check_length(request, bytes_max)
    unpack = _unpacker(request.headers.get("content-encoding", ""))
    total_bytes = 0
    async for raw in _raw_pieces(request):
        for count, piece in enumerate(unpack.feed(raw) if unpack is not None else (raw,)):
            total_bytes += len(piece)
            if bytes_max is not None and total_bytes > bytes_max:
                raise too_large(bytes_max)
            if count:
                await asyncio.sleep(0)  # unpacking much of little must not hold the loop
            if piece:
                yield piece
    if unpack is not None:
        unpack.finish()


def _check_length(request: Request, bytes_max: int | None) -> None:
    length = request.headers.get("content-length", "")
    if bytes_max is not None and length.isdigit() and int(length) > bytes_max:
        raise too_large(bytes_max)


async def _raw_pieces(request: Request) -> AsyncIterator[bytes]:
    idle_seconds = context_of(request).idle_seconds
    while True:
        try:
            async with asyncio.timeout(idle_seconds):
                message = await request.receive()
        except TimeoutError:
            raise HttpProblem(
                408, "the request's body does not come to its end", headers={"Connection": "close"}
            ) from None
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        body: bytes = message.get("body", b"")
        if body:
            yield body
        if not message.get("more_body", False):
            return


def _unpacker(encoding: str) -> "_Unpacker | None":
    encoding = essence(encoding)
    if encoding in ("", "identity"):
        return None
    if encoding in ("gzip", "x-gzip"):
        return _Unpacker(gzip=True)
    if encoding == "deflate":
        return _Unpacker(gzip=False)
    raise plain_problem(415, {"Accept-Encoding": "gzip, deflate"})


class _Unpacker:
    """gzip (of several members, too) or deflate (with or without a header), a bounded piece at a time."""

    def __init__(self, *, gzip: bool) -> None:
        self._gzip = gzip
        self._state: Any = None
        self._begun = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        """What these bytes unpack to. HttpProblem 400 if they are damaged."""
        while data:
            if self._state is None:
                if self._begun and not self._gzip:
                    raise _damaged("there are bytes after its end")
                self._state = zlib.decompressobj(self._window_bits(data))
                self._begun = True
            piece = self._unpacked(data)
            data = self._state.unconsumed_tail
            if self._state.eof:
                data, self._state = self._state.unused_data, None
            yield piece
            # A full piece may leave output in the state although no input is left over.
            while self._state is not None and not data and len(piece) == _UNPACKED_PIECE_BYTES:
                piece = self._unpacked(b"")
                if self._state.eof:
                    data, self._state = self._state.unused_data, None
                yield piece

    def _unpacked(self, data: bytes) -> bytes:
        try:
            found: bytes = self._state.decompress(data, _UNPACKED_PIECE_BYTES)
        except zlib.error as error:
            raise _damaged(str(error)) from None
        return found

    def finish(self) -> None:
        """The body has ended: so must what is compressed. HttpProblem 400."""
        if self._state is not None:
            raise _damaged("it ends in the middle")

    def _window_bits(self, data: bytes) -> int:
        if self._gzip:
            return 31
        return 15 if data[0] & 0x0F == 8 else -15


def _damaged(why: str) -> HttpProblem:
    return HttpProblem(400, f"the request's body cannot be decompressed: {why}")
