"""The handler table: which APIs this broker answers, in which versions, and with which function.

A handler file registers itself by decorating its function (`load_all` in __init__.py imports them all);
ApiVersions is built from this table, so what is advertised is what exists. There are two forms:

    @handles(HeartbeatRequest)      (broker, context, request) -> `Reply`: the response message, or an
                                    awaitable of it when the answer has to wait: only then does a request cost
                                    a task. Or a generator that yields after every few rows and returns the
                                    message, where the work grows with the request or the cluster.
    @serves_frames(FetchRequest)    (broker, exchange, view, body offset, version, correlation id) -> the
                                    whole answer frame, or None when a slot is filled later. For the hot APIs.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from moldau.broker.handlers.parts.broker import Broker, RequestContext
from moldau.broker.handlers.parts.exchange import AnswerFrame
from moldau.common.core.waiting import Answer

ResponseT = TypeVar("ResponseT")
Reply: TypeAlias = Answer[ResponseT] | Generator[None, None, ResponseT]
"""What a declared handler returns: the response, an awaitable of it, or the steps that lead to it."""

Handler = Callable[[Broker, RequestContext, Any], Reply[Any]]
FrameHandler = Callable[[Broker, Any, memoryview, int, int, int], AnswerFrame | None]
HandlerT = TypeVar("HandlerT", bound=Handler)
FrameHandlerT = TypeVar("FrameHandlerT", bound=FrameHandler)
_NEVER_FLEXIBLE = 1 << 15


@dataclass(frozen=True, slots=True)
class Entry:
    """One row of the table: an API key, the versions that are served (inclusive), the types, the function."""

    api_key: int
    name: str
    min_version: int
    max_version: int
    flexible_from: int
    request_type: type[Any]
    handler: Handler | None  # of a frame handler: for large frames, if it has one for them
    raw: FrameHandler | None = None
    many_rows: Handler | None = None


TABLE: dict[int, Entry] = {}


def handles(request_type: type[Any]) -> Callable[[HandlerT], HandlerT]:
    """Register the decorated function for `request_type`, in all versions that the message declares."""

    def register(function: HandlerT) -> HandlerT:
        _add(request_type, handler=function, raw=None)
        return function

    return register


def serves_frames(
    request_type: type[Any], large: Handler | None = None, many_rows: Handler | None = None
) -> Callable[[FrameHandlerT], FrameHandlerT]:
    """Register the decorated function as one that decodes and encodes `request_type` by itself. Large frames
    are decoded in slices, and `large` gives an awaitable of their whole answer frame; it is cancelled if the
    client goes. `many_rows` is the handler of a request for which the function raises ManyRows."""

    def register(function: FrameHandlerT) -> FrameHandlerT:
        _add(request_type, handler=large, raw=function, many_rows=many_rows)
        return function

    return register


def _add(
    request_type: type[Any],
    *,
    handler: Handler | None,
    raw: FrameHandler | None,
    many_rows: Handler | None = None,
) -> None:
    api_key, (low, high) = request_type.KEY, request_type.VERSIONS
    if api_key in TABLE:
        raise ValueError(f"two handlers for API {api_key}: {TABLE[api_key]} and {handler or raw}")
    flexible_from = request_type.FLEXIBLE_FROM
    TABLE[api_key] = Entry(
        api_key,
        request_type.__name__.removesuffix("Request"),
        low,
        high,
        _NEVER_FLEXIBLE if flexible_from is None else flexible_from,
        request_type,
        handler,
        raw,
        many_rows,
    )
