"""Requests to a Connect worker; what it refuses becomes a sentence that ends with what to do.

While work is distributed anew a worker answers 409, and asks to be asked again: that is done here, for a
while.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer

from moldau.tools.shared.errors import CommandError, UsageError
from moldau.tools.shared.http_service import HttpService, NotJson, Unanswered, path_part
from moldau.tools.shared.options import parse_assignments

DEFAULT_CONNECT = "http://127.0.0.1:8083"
_BUSY_SECONDS = 60.0
_PAUSE_SECONDS = 0.5
_ADVICE = {
    401: "log in with -C basic.auth.user.info=NAME:PASSWORD or -C bearer.auth.token=TOKEN",
    40301: "log in as somebody who may (-C basic.auth.user.info=...), or ask for the right",
    404: "`moldau connect list` names the connectors",
}

ConnectUrl = Annotated[
    str,
    typer.Option(
        "--connect",
        "-u",
        envvar="MOLDAU_CONNECT",
        metavar="URL",
        help="A worker's address (several, separated by commas, are tried in turn).",
        rich_help_panel="Connection",
    ),
]
ConnectSettings = Annotated[
    list[str] | None,
    typer.Option(
        "--connect-setting",
        "-C",
        metavar="NAME=VALUE",
        help="A setting of the HTTP client: -C basic.auth.user.info=me:secret, -C ssl.ca.location=FILE. May "
        "be repeated.",
        rich_help_panel="Connection",
    ),
]


class Refusal(CommandError):
    """The worker refused; `status` is HTTP's."""

    def __init__(self, status: int, code: int, message: str) -> None:
        advice = _ADVICE.get(code)
        sentence = f"the worker refused: {message.rstrip().rstrip('.')} ({code})"
        super().__init__(f"{sentence}; {advice}" if advice else sentence)
        self.status = status
        self.message = message


class Connect:
    """A Connect cluster at one or several addresses."""

    def __init__(
        self,
        url: str,
        settings: list[str] | None,
        *,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        """UsageError: an address or a setting is wrong."""
        if any(not each.strip().startswith(("http://", "https://")) for each in url.split(",")):
            raise UsageError(
                f"--connect {url.rpartition('@')[2]} is no address: write http://HOST:PORT or "
                f"https://HOST:PORT"
            )
        conf = {**parse_assignments(settings, "-C"), "schema.registry.url": url}
        self._service = HttpService(conf, "application/json", "-C")
        self._clock = clock
        self._pause = pause

    def get(self, *path: str, **query: Any) -> Any:
        """GET. Refusal, CommandError."""
        return self.ask("GET", path, None, query)

    def put(self, *path: str, body: Any = None) -> Any:
        """PUT. Refusal, CommandError."""
        return self.ask("PUT", path, body, {})

    def post(self, *path: str, body: Any = None, **query: Any) -> Any:
        """POST. Refusal, CommandError."""
        return self.ask("POST", path, body, query)

    def ask(self, method: str, path: tuple[str, ...], body: Any, query: Mapping[str, Any]) -> Any:
        """A request that waits while work is distributed anew. Refusal, CommandError."""
        target = "/" + "/".join(path_part(each) for each in path)
        until = self._clock() + _BUSY_SECONDS
        while True:
            try:
                status, value = self._service.ask(method, target, body, query)
            except Unanswered as nobody:
                raise CommandError(
                    f"no Connect worker answers at {', '.join(nobody.failures)}: start one with `moldau "
                    f"connect "
                    "run` or `moldau serve --with connect`, or name it with --connect"
                ) from None
            except NotJson as other:
                raise CommandError(
                    f"what answers at {other.url} is no Connect worker (HTTP status {other.status}): name "
                    f"one "
                    "with --connect"
                ) from None
            if status < 300:
                return value
            refusal = _refusal(status, value)
            if not (status == 409 and "rebalance" in refusal.message.lower()) or self._clock() >= until:
                raise refusal
            self._pause(_PAUSE_SECONDS)


def _refusal(status: int, value: Any) -> Refusal:
    if isinstance(value, dict) and isinstance(value.get("message"), str):
        code = value.get("error_code")
        return Refusal(status, code if isinstance(code, int) else status, value["message"])
    return Refusal(status, status, f"HTTP status {status}")
