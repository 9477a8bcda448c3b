"""Requests that change the cluster, as the audit is told of them: every API of the table, with a full answer
and with an empty one.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import re
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from moldau.broker.handlers import load_all
from moldau.broker.handlers.parts.administrative import CHANGES, audited
from moldau.broker.handlers.parts.broker import RequestContext
from moldau.broker.handlers.parts.registry import TABLE
from moldau.broker.handlers.parts.session import Session
from moldau.broker.security.audit import AuditTrail, line_of
from moldau.common.core.clock import ManualClock
from moldau.common.core.slow_lane import SlowLane, all_steps
from moldau.common.core.timers import ManualTimers

load_all()
SECRET = "s3cret"
_STRUCT = re.compile(r"list\[(\w+)\]")


def filled(
    message: type, secret_names: tuple[str, ...] = ("value", "hmac", "salt", "salted_password")
) -> Any:
    """A message with one row in every list; secrets where there may be some."""
    made = message()
    names = vars(sys.modules[message.__module__])
    for name, annotation in message.__annotations__.items():
        found = _STRUCT.search(str(annotation))
        if found is not None:
            row = names.get(found[1])
            is_struct = isinstance(row, type) and getattr(row, "__annotations__", None)
            setattr(made, name, [filled(row) if is_struct else ("x" if found[1] == "String" else 1)])
        elif name in secret_names:
            setattr(made, name, SECRET if "String" in str(annotation) else SECRET.encode())
        elif "String" in str(annotation):
            setattr(made, name, f"the {name}")
    return made


def told(api_key: int, request: Any, response: Any, form: str, **broker: Any) -> list[Any]:
    """The events of one request, whose handler answers at once, in steps, or later."""
    events: list[Any] = []
    sink = SimpleNamespace(write=events.append)
    trail = AuditTrail(sink, ManualTimers(ManualClock()), lambda: 1, node_id=1)
    session = Session("P", client_host="10.0.0.1", client_id="c")
    session.authenticate("User:root", 0)

    def handler(*_: Any) -> Any:
        def steps() -> Any:
            yield
            return response

        async def later() -> Any:
            session.authenticate("User:other", 1)
            return response

        return {"at once": lambda: response, "in steps": steps, "later": later}[form]()

    serve = audited(handler, api_key, TABLE[api_key].name)
    made = SimpleNamespace(**{"audit": trail, "slow_lane": SlowLane(), "check_stores": None, **broker})
    answer = serve(made, RequestContext(1, 1, session), request)  # type: ignore[arg-type]
    if inspect.isgenerator(answer):
        answer = all_steps(answer)
    if inspect.isawaitable(answer):
        answer = asyncio.run(_settled(answer))
    assert answer is response
    return events


async def _settled(answer: Any) -> Any:
    return await answer


@pytest.mark.parametrize("api_key", sorted(CHANGES))
@pytest.mark.parametrize("form", ["at once", "in steps", "later"])
def test_every_change_is_one_event_with_its_names_and_no_secret(api_key: int, form: str) -> None:
    entry = TABLE[api_key]
    request = filled(entry.request_type)
    if hasattr(request, "validate_only"):
        request.validate_only = False
    (event,) = told(api_key, request, filled(entry.request_type.RESPONSE), form)
    assert event["principal"] == "User:root", "who asked, not who the session is by now"
    assert event["request"] == entry.name
    assert event["counts"] == {"NONE": 1}
    text = json.dumps(event) + line_of(event)
    assert SECRET not in text
    assert repr(SECRET.encode()) not in text


@pytest.mark.parametrize("api_key", sorted(CHANGES))
def test_an_answer_without_rows_is_no_fault(api_key: int) -> None:
    entry = TABLE[api_key]
    (event,) = told(api_key, entry.request_type(), entry.request_type.RESPONSE(), "at once")
    assert event["request"] == entry.name


def test_what_only_validates_and_what_nobody_is_told_of() -> None:
    entry = TABLE[19]
    request, response = filled(entry.request_type), filled(entry.request_type.RESPONSE)
    request.validate_only = True
    assert not told(19, request, response, "at once")
    request.validate_only = False
    assert not told(19, request, response, "at once", audit=None)
