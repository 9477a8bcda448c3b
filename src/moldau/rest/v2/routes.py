"""All paths of v2, in one table."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from moldau.rest.v2 import consumers, metadata, produce
from moldau.rest.v2.service import V2Service

Handler = Callable[[V2Service, Request], Awaitable[Response]]

_INSTANCE = "/consumers/{group}/instances/{instance}"
_PARTITION = "/topics/{topic}/partitions/{partition}"

ROUTES: tuple[tuple[str, str, Handler], ...] = (
    ("GET", "/topics", metadata.list_topics),
    ("GET", "/topics/{topic}", metadata.get_topic),
    ("POST", "/topics/{topic}", produce.produce_to_topic),
    ("GET", "/topics/{topic}/partitions", metadata.list_partitions),
    ("GET", _PARTITION, metadata.get_partition),
    ("POST", _PARTITION, produce.produce_to_partition),
    ("GET", _PARTITION + "/offsets", metadata.get_offsets),
    ("POST", "/consumers/{group}", consumers.create),
    ("DELETE", _INSTANCE, consumers.delete),
    ("POST", _INSTANCE + "/subscription", consumers.subscribe),
    ("GET", _INSTANCE + "/subscription", consumers.subscription),
    ("DELETE", _INSTANCE + "/subscription", consumers.unsubscribe),
    ("POST", _INSTANCE + "/assignments", consumers.assign),
    ("GET", _INSTANCE + "/assignments", consumers.assignment),
    ("POST", _INSTANCE + "/positions", consumers.seek),
    ("POST", _INSTANCE + "/positions/beginning", consumers.seek_to_beginning),
    ("POST", _INSTANCE + "/positions/end", consumers.seek_to_end),
    ("GET", _INSTANCE + "/records", consumers.records),
    ("POST", _INSTANCE + "/offsets", consumers.commit),
    ("GET", _INSTANCE + "/offsets", consumers.committed),
    ("GET", "/brokers", metadata.list_brokers),
)
"""Method, path, handler."""


def routes(service: V2Service) -> list[BaseRoute]:
    """The routes; methods of one path share one, so that another method is 405."""
    by_path: dict[str, dict[str, Handler]] = {}
    for method, path, handler in ROUTES:
        by_path.setdefault(path, {})[method] = handler
    return [
        Route(path, _endpoint(service, handlers), methods=list(handlers))
        for path, handlers in by_path.items()
    ]


def _endpoint(service: V2Service, handlers: dict[str, Handler]) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        method = "GET" if request.method == "HEAD" else request.method
        return await handlers[method](service, request)

    return endpoint
