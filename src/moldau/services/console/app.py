"""The console as one application.

settings -> cluster, access, audit, changes -> pages, forms, streams, files -> Application

async with serve_console(configuration) as server: ...         on its listeners
async with console_application(configuration) as application:  an ASGI application, to be mounted elsewhere
"""

from __future__ import annotations

import asyncio
import mimetypes
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cache
from pathlib import Path
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from moldau.client.errors import ClientError
from moldau.common.credentials.errors import CredentialsError
from moldau.common.settings.rows import SettingError
from moldau.schemas.registry_settings import RegistrySettingError
from moldau.services.console.access import Access, CheckPassword, users_of
from moldau.services.console.api.document import document
from moldau.services.console.changes.audit import Audit
from moldau.services.console.changes.brokers import BrokerChanges
from moldau.services.console.changes.connectors import ConnectorChanges
from moldau.services.console.changes.groups import GroupChanges
from moldau.services.console.changes.produce import ProduceChange
from moldau.services.console.changes.topics import TopicChanges
from moldau.services.console.changes.undo import Undo
from moldau.services.console.cluster import ClusterAccess
from moldau.services.console.connect_client import ConnectWorkers
from moldau.services.console.pages import audit as audit_pages
from moldau.services.console.pages import (
    brokers,
    connectors,
    groups,
    messages,
    moves,
    overview,
    schemas,
    security,
    topics,
    transactions,
)
from moldau.services.console.pages.call import Call, Console
from moldau.services.console.pages.forms import Forms
from moldau.services.console.pages.login import Login
from moldau.services.console.pages.routes import (
    SECURITY_HEADERS,
    json_response,
    page_routes,
    problem_page,
    require_login,
    translate,
)
from moldau.services.console.pages.streams import Streams
from moldau.services.console.registry import Registry
from moldau.services.console.settings import DEFAULT_PORT, ConsoleConfiguration
from moldau.services.http.application import Application, Health
from moldau.services.http.assembly import server_of
from moldau.services.http.media_types import JSON
from moldau.services.http.problems import HttpProblem
from moldau.services.http.server import HttpServer
from moldau.services.kafka.producing import Producers

PAGES = (
    *overview.PAGES,
    *messages.PAGES,  # first: they are longer than those of a topic
    *topics.PAGES,
    *groups.PAGES,
    *moves.PAGES,  # first: its path could be a broker's
    *brokers.PAGES,
    *schemas.PAGES,
    *connectors.PAGES,
    *transactions.PAGES,
    *security.PAGES,
    *audit_pages.PAGES,
)
_STATIC = Path(__file__).parent / "static"
_HTML = "text/html"


class Served(NamedTuple):
    """The application with headers on everything, and the one inside."""

    app: ASGIApp
    inner: Application


@asynccontextmanager
async def console_application(configuration: ConsoleConfiguration) -> AsyncIterator[Served]:
    """The application; its clients of Kafka end with the context. SettingError."""
    settings = configuration.settings
    async with AsyncExitStack() as ends:
        try:
            cluster = ClusterAccess(configuration)
            ends.push_async_callback(cluster.close)
            producers = Producers(
                {"client.id": "moldau-console", **configuration.client()}, bytes_max=16 << 20
            )
            ends.push_async_callback(producers.close)
        except (ClientError, CredentialsError) as problem:
            raise SettingError("bootstrap.servers", str(problem)) from None
        access = _access_of(configuration, ends)
        undo = Undo(settings.moldau_console_data_dir)
        registry = _registry_of(configuration, ends)
        connects = [ConnectWorkers(each) for each in settings.moldau_console_connect_urls]
        changes = [
            *ConnectorChanges(connects).all(),
            *TopicChanges(cluster).all(),
            *BrokerChanges(cluster).all(),
            *ProduceChange(cluster, producers).all(),
            *GroupChanges(cluster, undo).all(),
        ]
        console = Console(
            configuration,
            cluster,
            access,
            Audit(settings.moldau_console_audit_file),
            undo,
            {each.name: each for each in changes},
            registry,
            connects,
        )
        inner = _application(console)
        cluster.start()
        yield Served(with_security_headers(inner), inner)
        inner.ending.set()


@asynccontextmanager
async def serve_console(configuration: ConsoleConfiguration) -> AsyncIterator[HttpServer]:
    """The console on its listeners. SettingError, ListenError."""
    async with console_application(configuration) as served:
        server = server_of(served.app, configuration.settings, DEFAULT_PORT)
        await server.start()
        try:
            yield server
        finally:
            served.inner.ending.set()
            await server.stop()


def _registry_of(configuration: ConsoleConfiguration, ends: AsyncExitStack) -> Registry | None:
    settings = configuration.registry()
    if not settings:
        return None
    try:
        registry = Registry(settings)
    except RegistrySettingError as problem:
        raise SettingError("schema.registry.url", str(problem)) from None
    ends.callback(registry.close)
    return registry


def _access_of(configuration: ConsoleConfiguration, ends: AsyncExitStack) -> Access:
    settings = configuration.settings
    if configuration.login == "users":
        check, current = users_of(settings.moldau_http_users_file or "")
        return Access(settings, configuration.login, check, current=current)
    return Access(settings, configuration.login, _check_of(configuration, ends))


def _check_of(configuration: ConsoleConfiguration, ends: AsyncExitStack) -> CheckPassword | None:
    if configuration.login == "scram":
        from moldau.services.console.scram_login import ScramLogin

        login = ScramLogin(configuration)
        ends.callback(login.close)
        return login.check
    return None


def _application(console: Console) -> Application:
    holder: list[Application] = []

    def ending() -> asyncio.Event:
        return holder[0].ending

    async def openapi(request: Request) -> Response:
        require_login(Call(console, request))
        return json_response(document(PAGES, console.changes.values()))

    async def unknown(request: Request) -> Response:
        problem = HttpProblem(404, f"There is no page {request.url.path[:200]}.")
        if _HTML in request.headers.get("accept", ""):
            return problem_page(Call(console, request), problem)
        raise problem

    routes: list[BaseRoute] = [
        Route("/static/{file:path}", _static, methods=["GET"]),
        Route("/openapi.json", openapi, methods=["GET"]),
        *Login(console).routes(),
        *Streams(console, ending).routes(),
        *Forms(console).routes(),
        *page_routes(console, PAGES),
        Route("/{path:path}", unknown, methods=["GET"]),
    ]

    def health() -> Health:
        facts = console.cluster.facts
        ready = facts.known is not None and not facts.problem
        return Health(
            ready, {"cluster": facts.problem or ("not asked yet" if facts.known is None else "answers")}
        )

    application = Application(
        routes,
        console.configuration.settings,
        offered=lambda path: (JSON, "text/html", "text/event-stream", "*/*"),
        gate=console.access,
        health=health,
        metrics_prefix="moldau_console",
        translate=translate,
    )
    holder.append(application)
    return application


@cache
def _files() -> dict[str, tuple[bytes, str]]:
    """The files of static/, read once: they are few and small."""
    found = {}
    for path in _STATIC.rglob("*"):
        if path.is_file():
            kind = mimetypes.guess_type(path.name)[0] or "text/plain"
            if kind.startswith("text/") or kind.endswith("javascript"):
                kind += "; charset=utf-8"
            found[path.relative_to(_STATIC).as_posix()] = path.read_bytes(), kind
    return found


async def _static(request: Request) -> Response:
    found = _files().get(request.path_params["file"])
    if found is None:
        raise HttpProblem(404, "There is no such file.")
    return Response(found[0], 200, {"Cache-Control": "public, max-age=3600"}, found[1])


def with_security_headers(app: ASGIApp) -> ASGIApp:
    """The application with the headers that tell browsers what this site never does, on all answers."""
    headers = [(name.lower().encode(), value.encode()) for name, value in SECURITY_HEADERS.items()]

    async def wrapped(scope: Scope, receive: Receive, send: Send) -> None:
        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], *headers]}
            await send(message)

        await app(scope, receive, sent)

    return wrapped
