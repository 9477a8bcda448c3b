"""Login and logout."""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from moldau.services.console.access import COOKIE
from moldau.services.console.pages.call import Call, Console
from moldau.services.console.pages.forms import form_values
from moldau.services.console.pages.routes import html_response
from moldau.services.http.problems import HttpProblem


class Login:
    """The routes."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def routes(self) -> list[BaseRoute]:
        """Login and logout."""
        return [
            Route("/login", self._login, methods=["GET", "POST"]),
            Route("/logout", self._logout, methods=["POST"]),
        ]

    async def _login(self, request: Request) -> Response:
        call = Call(self._console, request)
        wanted = own_path(call.query.get("next", "/"))
        if not self._console.access.asks_everybody:
            return RedirectResponse(wanted, 303)
        if request.method == "GET":
            return self._page(call, wanted, "", "")
        values = await form_values(request)
        name = values.get("name", "")
        try:
            principal = await self._console.access.log_in(request, name, values.get("password", ""))
        except HttpProblem as problem:
            return self._page(call, wanted, name, problem.message, problem.status)
        answer = RedirectResponse(own_path(values.get("next", "/")), 303)
        answer.set_cookie(
            COOKIE,
            self._console.access.sessions.begin(principal),
            max_age=self._console.configuration.settings.moldau_console_session_ms // 1000,
            path="/",
            secure=request.url.scheme == "https",
            httponly=True,
            samesite="strict",
        )
        return answer

    def _page(self, call: Call, wanted: str, name: str, problem: str, status: int = 200) -> Response:
        data = {
            "next": wanted,
            "name": name[:256],
            "problem": problem,
            "way": self._console.access.login,
        }
        return html_response(call, "login.html", "", data, status)

    async def _logout(self, request: Request) -> Response:
        self._console.access.sessions.end(request.cookies.get(COOKIE))
        answer = RedirectResponse("/login", 303)
        answer.delete_cookie(COOKIE, path="/")
        return answer


def own_path(text: str) -> str:
    """A path of this site: what leads elsewhere becomes the first page."""
    parts = urlsplit(text)
    odd = (
        not text.startswith("/")
        or text.startswith(("//", "/\\"))
        or "\\" in text
        or any(ord(s) < 33 for s in text)
    )
    return "/" if odd or parts.scheme or parts.netloc else text
