"""The layers around a service's routes, from the outside in:

    context      limits, memory of the body, who asks; times and counts the request
    errors       whatever is raised becomes `{"error_code", "message"}` (problems.py)
    pages        /health, /health/live, /health/ready, /metrics
    login        a principal, or 401
    routes       the service's own (starlette)

Paths are matched before `%2F` becomes a slash, as JAX-RS does: the name of a subject may have one. Routes
read their parameters with `path_value`. A slash at the end of a path is ignored.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol
from urllib.parse import unquote

from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from moldau.services.http.answers import NOT_COMPRESSED, problem_answer
from moldau.services.http.connections import IS_GONE
from moldau.services.http.context import (
    ANONYMOUS,
    CLIENT_HOST,
    CLIENT_IS_GONE,
    SCOPE_KEY,
    MemoryBudget,
    Principal,
    RequestContext,
    context_of,
)
from moldau.services.http.counters import CONTENT_TYPE, RequestCounters, Sample, exposition
from moldau.services.http.host_names import HostNames
from moldau.services.http.media_types import JSON
from moldau.services.http.problems import HttpProblem, plain_problem
from moldau.services.http.settings import HttpSettingsPart

log = logging.getLogger("moldau.http")

OPEN_PATHS = ("/health/live",)
_SLASH = "\ufdd0"
"""Stands for %2F while a path is matched; no text has this character."""
_COMPRESSED_BYTES_MIN = 1024


class Health(NamedTuple):
    """Whether the service can do its work; `detail` says why not, or how it goes."""

    ready: bool
    detail: Mapping[str, Any]


class Gate(Protocol):
    """Says who asks."""

    @property
    def asks_everybody(self) -> bool:
        """Whether nobody is let in without a login."""
        ...

    async def principal_of(self, request: Request) -> Principal:
        """Raise HttpProblem 401 where a login is asked for or wrong."""
        ...


Translate = Callable[[Exception], HttpProblem | None]
"""What a service's own exception is as an error response; None: it is not known."""


class Application:
    """An ASGI application."""

    def __init__(
        self,
        routes: Sequence[BaseRoute],
        settings: HttpSettingsPart,
        *,
        offered: Callable[[str], tuple[str, ...]] = lambda path: (JSON,),
        gate: Gate | None = None,
        health: Callable[[], Health] = lambda: Health(True, {}),
        metrics: Callable[[Principal], Iterable[Sample]] = lambda principal: (),
        metrics_prefix: str = "moldau_http",
        own_pages: frozenset[str] = frozenset(),
        translate: Translate = lambda failure: None,
        on_close: Callable[[], None] = lambda: None,
    ) -> None:
        """`offered` are the media types of responses by path, the favourite first; `metrics`, what somebody
        may see of them; `own_pages` are those of the pages above that the routes answer themselves."""
        self.close = on_close
        """Called when no request is answered any more."""
        self.ending = asyncio.Event()
        """Set when the server stops: what would go on without end ends now."""
        self.counters = RequestCounters()
        self.budget = MemoryBudget(settings.moldau_http_bodies_bytes_max)
        self._settings = settings
        self._offered = offered
        self._gate = gate
        self._health = health
        self._metrics = metrics
        self._prefix = metrics_prefix
        self._translate = translate
        self._own_pages = own_pages
        self._host_names = HostNames(settings)
        self._open_paths = frozenset((*OPEN_PATHS, *settings.authentication_skip_paths))
        self._router = Router(routes, redirect_slashes=False)
        self._outer = _wrapped(self._guarded, settings)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            return
        path = path_of(scope)
        context = RequestContext(
            budget=self.budget,
            body_bytes_max=self._settings.moldau_http_body_bytes_max,
            json_depth_max=self._settings.moldau_http_json_depth_max,
            idle_seconds=self._settings.idle_timeout_ms / 1000,
            offered=self._offered(path),
        )
        # 2.4: starlette leaves `receive` to the route, and expects OSError where a client has gone.
        scope["asgi"] = {"version": "3.0", "spec_version": "2.4"}
        scope["path"], scope["root_path"], scope["app"] = path, "", self
        scope[SCOPE_KEY] = context
        gone: Callable[[], bool] = scope.get(IS_GONE, lambda: False)
        CLIENT_IS_GONE.set(gone)
        CLIENT_HOST.set((scope.get("client") or ("",))[0])
        status = 0

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [each for each in message["headers"] if each != NOT_COMPRESSED]
            if gone():
                raise ConnectionResetError("the client has gone")
            await send(message)

        began = time.monotonic()
        self.counters.running += 1
        try:
            await self._outer(scope, receive, watched)
        except (ClientDisconnect, ConnectionResetError):
            pass
        except asyncio.CancelledError:
            if not self.ending.is_set():
                raise
        finally:
            self.counters.running -= 1
            context.release()
            route = getattr(scope.get("route"), "path", "")
            self.counters.answered(route, scope["method"], status, time.monotonic() - began)

    async def _guarded(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The routes; what they raise becomes a response, if none has begun."""
        begun = False

        async def watched(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        request = Request(scope, receive, watched)
        try:
            await self._route(request, watched)
        except (ClientDisconnect, ConnectionResetError):
            raise
        except Exception as failure:
            problem = self._problem(failure)
            if problem is None:
                log.exception("%s %s failed: this is a bug", request.method, request.url.path)
                problem = HttpProblem(500, "Internal Server Error: the service's log has the reason")
            if begun:
                raise _Broken from None  # uvicorn closes the connection, so that the client notices
            await problem_answer(request, problem)(scope, receive, watched)

    async def _route(self, request: Request, send: Send) -> None:
        path = request.scope["path"]
        if self._gate is None or not self._gate.asks_everybody:
            self._host_names.check(request)
        if self._gate is not None and path not in self._open_paths:
            context_of(request).principal = await self._gate.principal_of(request)
        page = self._page(request, path) if request.method in ("GET", "HEAD") else None
        if page is not None:
            await page(request.scope, request.receive, send)
            return
        await self._router(request.scope, request.receive, send)

    def _page(self, request: Request, path: str) -> Response | None:
        if path in self._own_pages:
            return None
        if path == "/metrics":
            samples = (
                *self.counters.samples(self._prefix),
                *self._own_samples(),
                *self._metrics(principal_of(request)),
            )
            return Response(exposition(samples), media_type=CONTENT_TYPE)
        if path == "/health/live":
            return Response(b'{"live":true}', media_type=JSON)
        if path in ("/health", "/health/ready"):
            import orjson

            health = self._health()
            body = orjson.dumps({"ready": health.ready, **health.detail})
            return Response(body, 200 if health.ready else 503, media_type=JSON)
        return None

    def _own_samples(self) -> Iterable[Sample]:
        name = f"{self._prefix}_bodies_held_bytes"
        return (Sample(name, "Bytes of request bodies that are held.", "gauge", self.budget.held_bytes),)

    def _problem(self, failure: Exception) -> HttpProblem | None:
        if isinstance(failure, HttpProblem):
            return failure
        if isinstance(failure, HTTPException):
            return plain_problem(failure.status_code, failure.headers or {})
        return self._translate(failure)


class _Broken(Exception):
    """A response that has begun cannot be ended."""


def _wrapped(app: ASGIApp, settings: HttpSettingsPart) -> ASGIApp:
    if settings.compression_enable:
        app = GZipMiddleware(app, minimum_size=_COMPRESSED_BYTES_MIN, compresslevel=4)
    origins = _listed(settings.access_control_allow_origin)
    if origins:
        app = CORSMiddleware(
            app,
            allow_origins=origins,
            allow_methods=_listed(settings.access_control_allow_methods) or ("GET", "POST", "HEAD"),
            allow_headers=_listed(settings.access_control_allow_headers),
        )
    return app


def _listed(text: str) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip()]


def path_of(scope: Scope) -> str:
    """The path with its escapes decoded, but for %2F, and without a slash at its end."""
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    path = raw.partition(b"?")[0].decode("latin-1")
    if "%" in path:
        path = unquote(path.replace("%2F", _SLASH).replace("%2f", _SLASH), errors="replace")
    return path.rstrip("/") or "/"


def path_value(request: HTTPConnection, name: str) -> str:
    """A parameter of the path, decoded."""
    value: str = request.path_params[name]
    return value.replace(_SLASH, "/")


def principal_of(request: HTTPConnection) -> Principal:
    """Who asks."""
    return context_of(request).principal if SCOPE_KEY in request.scope else ANONYMOUS


Endpoint = Callable[[Request], Awaitable[Response]]
"""What a route calls."""
