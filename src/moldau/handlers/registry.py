"""The handler table: which APIs this broker answers, in which versions, and with which function.

A handler file registers itself by decorating its function; ApiVersions is built from this table, so what is advertised is
what exists. A handler takes `(broker, context, request)` and returns the response message, or an awaitable of it when the
answer has to wait (a join, a long poll): only then does a request cost a task.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from moldau.handlers.broker import Broker, RequestContext

Handler = Callable[[Broker, RequestContext, Any], Any | Awaitable[Any]]
HandlerT = TypeVar("HandlerT", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Entry:
    """One row of the table: an API key, the versions that are served (inclusive), the request type, the function."""

    api_key: int
    name: str
    min_version: int
    max_version: int
    request_type: type[Any]
    handler: Handler


TABLE: dict[int, Entry] = {}


def handles(request_type: type[Any]) -> Callable[[HandlerT], HandlerT]:
    """Register the decorated function as the handler of `request_type`, in all versions that the message declares."""

    def register(function: HandlerT) -> HandlerT:
        api_key, (low, high) = request_type.KEY, request_type.VERSIONS
        if api_key in TABLE:
            raise ValueError(f"two handlers for API {api_key}: {TABLE[api_key].handler} and {function}")
        name = request_type.__name__.removesuffix("Request")
        TABLE[api_key] = Entry(api_key, name, low, high, request_type, function)
        return function

    return register
