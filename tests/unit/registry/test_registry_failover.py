"""A write while the primary is replaced: it is sent again as long as nothing of it was written."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from moldau.services.http.context import SCOPE_KEY, MemoryBudget, RequestContext
from moldau.services.registry.forwarding import Interrupted, NotReached
from moldau.services.registry.problems import Code, NotPrimary, RegistryProblem
from moldau.services.registry.routes.calls import OFFERED, Calls


class Told:
    """A service and a primary that do, call by call, what a list says."""

    def __init__(self, *events: Any) -> None:
        self.events = list(events)
        self.caught_up = 0
        self.instance = self

    def catch_up(self) -> None:
        self.caught_up += 1

    def call(self) -> Any:
        """The operation here."""
        return self._next()

    async def forward(self, url: str, request: Request, body: bytes) -> Response:
        """The operation there."""
        assert (url, body) == ("http://primary", b"body")
        found = self._next()
        assert isinstance(found, Response)
        return found

    def _next(self) -> Any:
        event = self.events.pop(0)
        if isinstance(event, Exception):
            raise event
        return event


ELSEWHERE = NotPrimary("http://primary")
NOBODY = NotReached(Code.FORWARDING, "refused")


def write(told: Told, seconds: float = 60.0, *, repeatable: bool = False) -> Response:
    calls = Calls(told, told.forward, election_seconds=seconds)  # type: ignore[arg-type]
    scope: dict[str, Any] = {
        "type": "http",
        "method": "POST",
        "path": "/",
        "query_string": b"",
        "headers": [],
    }
    scope[SCOPE_KEY] = RequestContext(MemoryBudget(1), 1, 1, 1.0, OFFERED)
    return asyncio.run(calls.write(Request(scope), b"body", told.call, repeatable=repeatable))


def refusal(code: int) -> Response:
    return JSONResponse({"error_code": code, "message": ""}, 500)


@pytest.mark.parametrize("waits", [lambda: NOBODY, lambda: refusal(Code.NO_PRIMARY)])
def test_a_write_waits_for_the_next_primary(waits: Callable[[], Any]) -> None:
    told = Told(ELSEWHERE, waits(), ELSEWHERE, waits(), ELSEWHERE, JSONResponse({"id": 1}))
    assert write(told).status_code == 200
    assert told.caught_up == 1
    assert told.events == []


def test_this_instance_may_become_the_primary_meanwhile() -> None:
    told = Told(ELSEWHERE, NOBODY, {"id": 1})
    assert bytes(write(told).body) == b'{"id":1}'
    assert told.caught_up == 0


@pytest.mark.parametrize("code", [Code.STORE, Code.TIMEOUT, Code.FORWARDING])
def test_what_may_have_been_written_is_not_sent_again(code: Code) -> None:
    told = Told(ELSEWHERE, refusal(code))
    assert write(told).status_code == 500
    with pytest.raises(RegistryProblem):
        write(Told(ELSEWHERE, RegistryProblem(Code.FORWARDING, "the connection broke")))


def test_a_refusal_is_passed_on() -> None:
    assert write(Told(ELSEWHERE, JSONResponse({"error_code": 409, "message": ""}, 409))).status_code == 409


def test_the_wait_has_an_end() -> None:
    with pytest.raises(NotReached):
        write(Told(ELSEWHERE, NOBODY), seconds=0.0)
    assert write(Told(ELSEWHERE, refusal(Code.NO_PRIMARY)), seconds=0.0).status_code == 500


def test_what_is_written_is_told_although_it_cannot_be_read_here() -> None:
    told = Told(ELSEWHERE, JSONResponse({"id": 1}))

    def fail() -> None:
        raise RegistryProblem(Code.TIMEOUT, "not read")

    told.catch_up = fail  # type: ignore[method-assign]
    assert write(told).status_code == 200


def test_a_primary_that_dies_before_it_answers_is_asked_again_if_that_does_no_harm() -> None:
    lost = Interrupted(Code.FORWARDING, "reset")
    told = Told(ELSEWHERE, lost, ELSEWHERE, NOBODY, {"id": 1})
    assert json.loads(write(told, repeatable=True).body) == {"id": 1}
    with pytest.raises(Interrupted):
        write(Told(ELSEWHERE, lost))
