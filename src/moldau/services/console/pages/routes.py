"""Pages as routes: HTML, JSON, what went wrong in words; headers on everything.

The policy lets the browser load nothing but this server's files, run no script that stands in a page, and
send forms nowhere else: text from a cluster that would get into a page unescaped still could not do anything.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import quote

import orjson
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from moldau.client.admin.problem import KafkaProblem
from moldau.common.protocol.errors import ErrorCode
from moldau.services.console.access import NOBODY
from moldau.services.console.pages.call import Call, Console
from moldau.services.console.pages.rendering import render
from moldau.services.console.pages.table import Data, Page
from moldau.services.http.answers import bytes_answer
from moldau.services.http.problems import HttpProblem

log = logging.getLogger("moldau.console")

SECURITY_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "font-src 'self'; manifest-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}
SECTIONS = (
    ("overview", "Overview", "/", "o"),
    ("topics", "Topics", "/topics", "t"),
    ("groups", "Groups", "/groups", "g"),
    ("brokers", "Brokers", "/brokers", "b"),
    ("schemas", "Schemas", "/schemas", "s"),
    ("connectors", "Connectors", "/connectors", "c"),
    ("transactions", "Transactions", "/transactions", "x"),
    ("security", "Security", "/security/acls", "r"),
    ("audit", "Audit", "/audit", "a"),
)
"""The navigation: its id, its words, its path, the key after g."""
_STATUS: dict[int, int] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: 404,
    ErrorCode.GROUP_ID_NOT_FOUND: 404,
    ErrorCode.OFFSET_OUT_OF_RANGE: 404,
    ErrorCode.BROKER_NOT_AVAILABLE: 404,
    ErrorCode.REQUEST_TIMED_OUT: 504,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: 403,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: 403,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: 403,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: 403,
}
_TITLES = {
    400: "This cannot be done as it was asked",
    401: "A login is needed",
    403: "Not allowed",
    404: "Not found",
    429: "Too much at once",
    502: "The cluster refused",
    503: "Not now",
    504: "The cluster does not answer",
}


def translate(failure: Exception) -> HttpProblem | None:
    """What the cluster's refusals are over HTTP."""
    if isinstance(failure, KafkaProblem):
        return HttpProblem(_STATUS.get(failure.error_code, 502), failure.words)
    return None


def page_routes(console: Console, pages: tuple[Page, ...]) -> list[BaseRoute]:
    """HTML and JSON of every page."""
    routes: list[BaseRoute] = []
    for page in pages:
        routes.append(Route(starlette_path(page.json_path), _json(console, page), methods=["GET"]))
        api = "/api/overview" if page.path == "/" else f"/api{page.path}"
        routes.append(Route(starlette_path(api), _json(console, page), methods=["GET"]))
    routes += [Route(starlette_path(page.path), _html(console, page), methods=["GET"]) for page in pages]
    return routes


def starlette_path(path: str) -> str:
    """Numbers in the path match digits only, so that .json can follow."""
    return path.replace("{offset}", "{offset:int}").replace("{partition}", "{partition:int}")


def _json(console: Console, page: Page) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        call = Call(console, request)
        require_login(call)
        return json_response(await page.data(call))

    return answer


def _html(console: Console, page: Page) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        call = Call(console, request)
        if call.principal is NOBODY:
            return to_login(request)
        try:
            data = await page.data(call)
            return html_response(call, page.template, page.section, data)
        except Exception as failure:
            return problem_page(call, failure, page.section)

    return answer


def require_login(call: Call) -> None:
    """HttpProblem 401."""
    if call.principal is NOBODY:
        raise HttpProblem(401, "a login is needed", headers={"WWW-Authenticate": 'Basic realm="moldau"'})


def to_login(request: Request) -> Response:
    """The login, and then the page that was asked for."""
    wanted = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    return RedirectResponse(f"/login?next={quote(wanted, safe='')}", 303)


def json_response(data: Data, status: int = 200) -> Response:
    """The data; never kept by caches."""
    body = orjson.dumps(data, default=_plain, option=orjson.OPT_NON_STR_KEYS)
    return bytes_answer(body, "application/json", status, {"Cache-Control": "no-store"})


def _plain(value: Any) -> Any:
    if isinstance(value, tuple | set | frozenset):
        return list(value)
    if isinstance(value, int):  # beyond 64 bits
        return str(value)
    raise TypeError(type(value).__name__)


def html_response(
    call: Call, template: str, section: str, data: Mapping[str, Any], status: int = 200
) -> Response:
    """A page around the data."""
    text = render(template, {**frame(call, section), **data})
    headers = {"Cache-Control": "no-store", "Vary": "Cookie"}
    return bytes_answer(text.encode("utf-8", "replace"), "text/html; charset=utf-8", status, headers)


def frame(call: Call, section: str) -> dict[str, Any]:
    """What every page has around its data."""
    console, facts = call.console, call.console.cluster.facts
    known = facts.known
    verdict = facts.verdict(known) if known is not None else None
    done = console.done.get(call.query.get("done", "")[:64])
    query = {name: value for name, value in call.query.items() if name != "done"}
    bare = console.access.asks_everybody and call.principal is NOBODY
    return {
        "bare": bare,
        "sections": SECTIONS,
        "section": section,
        "status": verdict.word if verdict is not None else "unknown",
        "cluster_name": "console" if bare else console.cluster.bootstrap_servers,
        "who": call.principal.name if console.access.asks_everybody else "",
        "may_change": console.access.may_change(call.principal),
        "login": console.access.asks_everybody,
        "url": call.request.url.path,
        "here": query,
        "stale": "" if bare else facts.problem,
        "done": None if bare else done,
        "refresh_seconds": max(2, console.configuration.settings.moldau_console_refresh_ms // 1000),
    }


def problem_page(call: Call, failure: Exception, section: str = "") -> Response:
    """What went wrong, as a page."""
    problem = failure if isinstance(failure, HttpProblem) else translate(failure)
    if problem is None:
        if isinstance(failure, ConnectionResetError):
            raise failure
        log.exception("%s failed: this is a bug", call.request.url.path, exc_info=failure)
        problem = HttpProblem(500, "The console's log has the reason.")
    data = {"title": _TITLES.get(problem.status, "Something went wrong"), "message": problem.message}
    answer = html_response(call, "problem.html", section, data, problem.status)
    for name, value in problem.headers.items():
        if name.lower() != "www-authenticate":
            answer.headers[name] = value
    return answer
