"""What routes have in common.

What only the leader may do is sent on to it: with `forward=true` by the first worker, with `forward=false` by
a second one that is not the leader either; after that it is 409, and the client tries again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlencode

from starlette.requests import Request
from starlette.responses import Response

from moldau.connect.errors import ConnectError
from moldau.services.connect.herder.interface import Herder, HerderProblem, NotLeader
from moldau.services.connect.validation.infos import Infos
from moldau.services.connect.validation.overrides import OverridePolicy
from moldau.services.connect.validation.validating import Given, validate
from moldau.services.http.application import path_value, principal_of
from moldau.services.http.bodies import parse_held, read_bytes
from moldau.services.http.context import Principal
from moldau.services.http.forwarding import Lost, Onward, Reach, Slow, TooLong, Unreached, send_on
from moldau.services.http.problems import HttpProblem
from moldau.services.http.rights import Kind, Operation, Rights

T = TypeVar("T")
_VALUES_MAX = 50_000
_PASSED_ON = ("content-type", "accept", "authorization")
_VALIDATED_AT_ONCE = 4
_SENTENCE_CHARS_MAX = 2000
_VALIDATION_SECONDS = 60.0

WORKER = Principal("worker")
"""Another worker, known by its signature, which is checked before anything is done for it."""
Resolve = Callable[[Mapping[str, str]], Mapping[str, str]]
"""References to secrets in a configuration -> their values. ConnectError."""


@dataclass(slots=True)
class Calls:
    """The herder as routes call it."""

    herder: Herder
    resolve: Resolve
    policy: OverridePolicy
    reach: Reach
    rights: Rights = field(default_factory=Rights.all)
    passed_on: tuple[str, ...] = ()
    """More headers that go with a request to the leader."""
    validators: Executor = field(
        default_factory=lambda: ThreadPoolExecutor(_VALIDATED_AT_ONCE, "connect-validate")
    )

    def close(self) -> None:
        """No request is answered any more."""
        if isinstance(self.validators, ThreadPoolExecutor):
            self.validators.shutdown(wait=False, cancel_futures=True)

    def connector(self, request: Request, operation: Operation) -> str:
        """The name in the path. HttpProblem 40301."""
        name = path_value(request, "name")
        self.check(request, operation, name)
        return name

    def check(self, request: Request, operation: Operation, name: str) -> None:
        """HttpProblem 40301 if who asks may not do that with this connector."""
        self.rights.check(principal_of(request), operation, Kind.CONNECTOR, name)

    def check_internal(self, request: Request, name: str) -> None:
        """Of what workers ask one another. HttpProblem 40301 for somebody else who may not change the
        connector: where requests are not signed, anybody could ask."""
        if principal_of(request) is not WORKER:
            self.check(request, Operation.WRITE, name)

    def check_cluster(self, request: Request, operation: Operation) -> None:
        """HttpProblem 40301 if who asks may not do that with the worker."""
        self.rights.check(principal_of(request), operation, Kind.CLUSTER, "connect")

    async def on_leader(
        self, request: Request, body: bytes, act: Callable[[], Awaitable[Response]]
    ) -> Response:
        """Do it here, or have the leader do it. HttpProblem 409 where no leader is known."""
        try:
            return await act()
        except NotLeader as elsewhere:
            return await self._send_on(request, body, elsewhere)

    async def _send_on(self, request: Request, body: bytes, elsewhere: NotLeader) -> Response:
        forward = request.query_params.get("forward")
        if forward == "false":
            raise HttpProblem(
                409, "Cannot complete request because of a conflicting operation (e.g. worker rebalance)"
            )
        if not elsewhere.leader_url:
            raise HttpProblem(
                409,
                "Cannot complete request momentarily due to no known leader URL, likely because a rebalance "
                "was underway.",
            )
        query = [
            pair for pair in parse_qsl(request.url.query, keep_blank_values=True) if pair[0] != "forward"
        ]
        query.append(("forward", "true" if forward is None else "false"))
        raw_path: bytes = request.scope.get("raw_path") or request.scope["path"].encode()
        headers = [
            (name, request.headers[name])
            for name in (*_PASSED_ON, *self.passed_on)
            if name in request.headers
        ]
        onward = Onward(request.method, raw_path + b"?" + urlencode(query).encode(), headers, body)
        url = elsewhere.leader_url
        try:
            return await send_on(url, onward, self.reach)
        except (Unreached, Lost) as lost:
            raise HttpProblem(
                500, f"IO Error trying to forward REST request to {url}: {lost.cause}"
            ) from None
        except Slow:
            raise HttpProblem(500, f"The leader at {url} did not answer in time") from None
        except TooLong:
            raise HttpProblem(500, f"The answer of the leader at {url} is too long") from None

    async def validated(self, config: Mapping[str, str]) -> Infos:
        """What is right and wrong with a configuration. HttpProblem 400, 500."""
        loop = asyncio.get_running_loop()
        work = loop.run_in_executor(self.validators, partial(self._validate, config))
        try:
            return await asyncio.wait_for(asyncio.shield(work), _VALIDATION_SECONDS)
        except TimeoutError:
            raise HttpProblem(
                500,
                f"The configuration was not checked within {_VALIDATION_SECONDS:.0f} s: does its other side "
                f"answer?",
            ) from None
        except ConnectError as problem:
            raise HttpProblem(400, str(problem)) from None

    def _validate(self, config: Mapping[str, str]) -> Infos:
        return validate(Given(config, self.resolve(config)), self.policy)

    async def require_valid(self, config: Mapping[str, str]) -> None:
        """HttpProblem 400 with everything that is wrong."""
        infos = await self.validated(config)
        if infos.error_count:
            lines = "\n".join(
                each if len(each) <= _SENTENCE_CHARS_MAX else f"{each[:_SENTENCE_CHARS_MAX]}…"
                for each in infos.sentences()
            )
            raise HttpProblem(
                400,
                "Connector configuration is invalid and contains the following "
                f"{infos.error_count} error(s):\n{lines}\n"
                "You can also find the above list of errors at the endpoint "
                "`/connector-plugins/{connectorType}/config/validate`",
            )


async def json_body(request: Request, body: bytes | None = None) -> tuple[Any, bytes]:
    """A body as JSON, and as it came. HttpProblem 400."""
    held = await read_bytes(request) if body is None else body
    return await parse_held(request, held, values_max=_VALUES_MAX), held


def texts(value: Any, what: str) -> dict[str, str]:
    """A configuration: a JSON object whose values are texts, or numbers and booleans taken as such.
    HttpProblem 400."""
    if not isinstance(value, dict):
        raise HttpProblem(400, f"{what} is not a JSON object")
    return {name: text for name, given in value.items() if (text := _text(name, given)) is not None}


def changes(value: Any, what: str) -> dict[str, str | None]:
    """The same, where null says that a setting is removed. HttpProblem 400."""
    if not isinstance(value, dict):
        raise HttpProblem(400, f"{what} is not a JSON object")
    return {name: _text(name, given) for name, given in value.items()}


def _text(name: str, given: Any) -> str | None:
    if given is None or isinstance(given, str):
        return given
    if isinstance(given, bool):
        return "true" if given else "false"
    if isinstance(given, (int, float)):
        return str(given)
    raise HttpProblem(400, f"the value of {name} is not a text")


def flag(request: Request, name: str, otherwise: bool = False) -> bool:
    """A parameter of the query that is true or false; without a value it is true, as in Kafka's examples."""
    value = request.query_params.get(name)
    if value is None:
        return otherwise
    return value.strip().lower() in ("", "true")


def translate(failure: Exception) -> HttpProblem | None:
    """The herder's words as a response."""
    if isinstance(failure, HerderProblem):
        return HttpProblem(failure.status, str(failure))
    if isinstance(failure, ConnectError):
        return HttpProblem(500, str(failure))
    return None
