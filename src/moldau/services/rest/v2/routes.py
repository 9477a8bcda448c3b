"""All paths of v2, in one table."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from moldau.services.http.destructive import check_delete
from moldau.services.http.problems import plain_problem
from moldau.services.rest.v2 import consumers, metadata, produce
from moldau.services.rest.v2.service import V2Service

Handler = Callable[[V2Service, Request], Awaitable[Response]]

_INSTANCE = "/consumers/{group}/instances/{instance}"
_PARTITION = "/topics/{topic}/partitions/{partition}"

ROUTES: tuple[tuple[str, str, str, Handler], ...] = (
    ("GET", "/topics", "topics.list", metadata.list_topics),
    ("GET", "/topics/{topic}", "topics.get", metadata.get_topic),
    ("POST", "/topics/{topic}", "produce-to-topic", produce.produce_to_topic),
    ("GET", "/topics/{topic}/partitions", "partitions.list", metadata.list_partitions),
    ("GET", _PARTITION, "partitions.get", metadata.get_partition),
    ("POST", _PARTITION, "produce-to-partition", produce.produce_to_partition),
    ("GET", _PARTITION + "/offsets", "partitions.get-offsets", metadata.get_offsets),
    ("POST", "/consumers/{group}", "consumers.create", consumers.create),
    ("DELETE", _INSTANCE, "consumers.delete", consumers.delete),
    ("POST", _INSTANCE + "/subscription", "consumers.subscribe", consumers.subscribe),
    ("GET", _INSTANCE + "/subscription", "consumers.get-subscription", consumers.subscription),
    ("DELETE", _INSTANCE + "/subscription", "consumers.unsubscribe", consumers.unsubscribe),
    ("POST", _INSTANCE + "/assignments", "consumers.assign", consumers.assign),
    ("GET", _INSTANCE + "/assignments", "consumers.get-assignments", consumers.assignment),
    ("POST", _INSTANCE + "/positions", "consumers.seek-to-offset", consumers.seek),
    (
        "POST",
        _INSTANCE + "/positions/beginning",
        "consumers.seek-to-beginning",
        consumers.seek_to_beginning,
    ),
    ("POST", _INSTANCE + "/positions/end", "consumers.seek-to-end", consumers.seek_to_end),
    ("GET", _INSTANCE + "/records", "consumers.consume", consumers.records),
    ("POST", _INSTANCE + "/offsets", "consumers.commit-offsets", consumers.commit),
    ("GET", _INSTANCE + "/offsets", "consumers.get-committed-offsets", consumers.committed),
    ("GET", "/brokers", "brokers.list", metadata.list_brokers),
)
"""Method, path, Confluent's name (for `api.endpoints.blocklist` and the like), handler."""
_BY_FORMAT = {"produce-to-topic": ".", "produce-to-partition": ".", "consumers.consume": "-"}
"""Where Confluent has a name for each format, such as produce-to-topic.binary: how that goes on. All formats
are one operation here, which is served if one of the names is allowed and none is blocked."""
_FORMATS = ("binary", "json", "avro", "json-schema", "protobuf")


def routes(service: V2Service) -> list[BaseRoute]:
    """The routes; methods of one path share one, so that another method is 405."""
    by_path: dict[str, dict[str, Handler]] = {}
    for method, path, name, handler in ROUTES:
        names = resource_names(name)
        is_served = service.served.is_served(names)
        by_path.setdefault(path, {})[method] = _limited(handler, names) if is_served else _blocked
    return [
        Route(path, _endpoint(service, handlers), methods=list(handlers))
        for path, handlers in by_path.items()
    ]


def resource_names(name: str) -> tuple[str, ...]:
    """An operation's names in `api.endpoints.*` and `rate.limit.costs`: several where it has one for each
    format."""
    each = [f"{name}{_BY_FORMAT[name]}{form}" for form in _FORMATS] if name in _BY_FORMAT else [name]
    return tuple(f"api.v2.{one}" for one in each)


def _limited(handler: Handler, names: tuple[str, ...]) -> Handler:
    async def limited(service: V2Service, request: Request) -> Response:
        await service.limits.admit(names)
        return await handler(service, request)

    return limited


async def _blocked(service: V2Service, request: Request) -> Response:
    raise plain_problem(405 if request.method == "POST" else 404)


def _endpoint(service: V2Service, handlers: dict[str, Handler]) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        method = "GET" if request.method == "HEAD" else request.method
        if method == "DELETE":
            check_delete(request)
        return await handlers[method](service, request)

    return endpoint
