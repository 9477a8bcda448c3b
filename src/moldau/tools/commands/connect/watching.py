"""Waits until a connector and its tasks are as they were told to be, and says how it goes."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

from moldau.tools.commands.connect.requests import Connect, Refusal
from moldau.tools.shared.errors import CommandError
from moldau.tools.shared.output import note

_PAUSE_SECONDS = 0.3


def wait_for(
    cluster: Connect,
    name: str,
    state: str,
    seconds: float,
    *,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> None:
    """CommandError: something has failed (with its cause), or it takes longer."""
    until = clock() + seconds
    told = ""
    while True:
        found = _status(cluster, name)
        if found is not None:
            failed = _failure(found)
            if failed is not None:
                raise CommandError(f"{name}: {failed}")
            if _is(found, state):
                note(f"{name} is {state}{_tasks(found)}")
                return
        line = "waiting for its first status" if found is None else _line(found)
        if line != told and sys.stderr.isatty():
            note(f"{name}: {line}")
            told = line
        if clock() >= until:
            if found is not None and found["connector"]["state"] == state and not found["tasks"]:
                note(f"{name} is {state}, and has no tasks: there is nothing to read yet")
                return
            raise CommandError(
                f"{name} is not {state} after {seconds:g} s ({line}); `moldau connect status {name}` shows "
                f"how it goes"
            )
        pause(_PAUSE_SECONDS)


def _status(cluster: Connect, name: str) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = cluster.get("connectors", name, "status")
    except Refusal as refusal:
        if refusal.status == 404:  # configured, and not told yet
            return None
        raise
    return found


def _failure(found: dict[str, Any]) -> str | None:
    parts = [
        ("the connector", found["connector"]),
        *((f"task {each['id']}", each) for each in found["tasks"]),
    ]
    for part, each in parts:
        if each["state"] == "FAILED":
            return f"{part} has failed: {each.get('trace', '').strip() or 'the worker does not say why'}"
    return None


def _is(found: dict[str, Any], state: str) -> bool:
    if found["connector"]["state"] != state:
        return False
    if state == "STOPPED":
        return not found["tasks"]
    # A source that has nothing to read has no tasks; a status is complete only once they are told.
    return all(each["state"] == state for each in found["tasks"]) and (
        bool(found["tasks"]) or state != "RUNNING"
    )


def _tasks(found: dict[str, Any]) -> str:
    count = len(found["tasks"])
    return f" with {count} task{'' if count == 1 else 's'}" if count else ""


def _line(found: dict[str, Any]) -> str:
    states = [each["state"] for each in found["tasks"]]
    counts = ", ".join(f"{states.count(state)} {state}" for state in sorted(set(states))) or "no tasks yet"
    return f"connector {found['connector']['state']}, tasks: {counts}"
