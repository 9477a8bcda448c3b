"""Responses as JSON, in the media type that the client asked for.

A long response leaves in pieces of 64 KiB, each when the one before has left: what a client does not read
costs its own bytes once, not twice, and compression never holds the event loop for long.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from typing import Any

import orjson
from starlette.requests import HTTPConnection
from starlette.responses import Response, StreamingResponse

from moldau.services.http.context import SCOPE_KEY, context_of
from moldau.services.http.media_types import JSON, choose
from moldau.services.http.problems import HttpProblem, plain_problem

PIECE_BYTES = 64 * 1024
NOT_COMPRESSED = (b"content-encoding", b"identity")
"""A header that keeps a response from compression; it is not sent."""
_ITEMS_PER_PIECE = 64


def media_type(request: HTTPConnection) -> str:
    """The response's media type. HttpProblem 406 if the client takes none that is offered."""
    found = choose(request.headers.get("accept"), context_of(request).offered)
    if found is None:
        raise plain_problem(406)
    return found


def json_answer(request: HTTPConnection, value: Any, status: int = 200) -> Response:
    """The value as JSON."""
    return bytes_answer(orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS), media_type(request), status)


def text_answer(request: HTTPConnection, text: str) -> Response:
    """A text that is sent as it is (a schema, an index), in the media type asked for."""
    return bytes_answer(text.encode("utf-8", "surrogatepass"), media_type(request))


def bytes_answer(
    body: bytes, content_type: str, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Bytes; in pieces where they are many."""
    if len(body) <= PIECE_BYTES:
        return Response(body, status, headers, content_type)
    sized = {"Content-Length": str(len(body)), **(headers or {})}
    return StreamingResponse(_cut(body), status, sized, content_type)


async def _cut(body: bytes) -> AsyncIterator[bytes]:
    view = memoryview(body)
    for start in range(0, len(body), PIECE_BYTES):
        yield bytes(view[start : start + PIECE_BYTES])
        await asyncio.sleep(0)  # sending waits only for a client that is slower than this


def json_list_answer(request: HTTPConnection, values: Iterable[Any]) -> Response:
    """A JSON array that is made while it is sent: the values of a long list are never all text at once."""
    return StreamingResponse(_array(iter(values)), 200, None, media_type(request))


async def _array(values: Iterator[Any]) -> AsyncIterator[bytes]:
    piece = bytearray(b"[")
    first = True
    for count, value in enumerate(values, 1):
        if not first:
            piece += b","
        first = False
        piece += orjson.dumps(value)
        if len(piece) >= PIECE_BYTES or count % _ITEMS_PER_PIECE == 0:
            for start in range(0, len(piece), PIECE_BYTES):  # one value may be large
                yield bytes(piece[start : start + PIECE_BYTES])
            piece.clear()
    piece += b"]"
    yield bytes(piece)


def live_answer(pieces: AsyncIterator[bytes], content_type: str, status: int = 200) -> Response:
    """A response whose pieces are sent at once, each as it comes, while the request's body may still be read.

    They are not compressed: compression holds small pieces back. Where the client has gone, the next piece
    ends the iterator with GeneratorExit.
    """
    headers = {"Content-Encoding": "identity", "Cache-Control": "no-store"}
    return StreamingResponse(pieces, status, headers, content_type)


def problem_answer(request: HTTPConnection, problem: HttpProblem) -> Response:
    """The error response; in the service's own media type if the client takes none that is offered."""
    content_type = JSON
    if SCOPE_KEY in request.scope:
        offered = context_of(request).offered
        content_type = choose(request.headers.get("accept"), offered) or offered[0]
    body = orjson.dumps({"error_code": problem.error_code, "message": problem.message})
    return Response(body, problem.status, dict(problem.headers), content_type)
