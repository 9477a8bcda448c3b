"""Connectors: states, tasks, and the last error in its own first words."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import Any

from moldau.services.console.connect_client import ConnectWorkers
from moldau.services.console.pages.call import Call
from moldau.services.console.pages.table import Data, Page
from moldau.services.http.problems import HttpProblem
from moldau.services.http.rights import Kind, Operation

_SECRET = re.compile(
    r"passw|passphrase|secret|token|credential|jaas|\bauth\.user\.info|user\.?info\b|sas[._-]?key"
    r"|(api|access|account|private|shared|encryption|keystore|ssl)[._-]?key\b(?!\.(id|alias))"
    r"|key\.(pem|json)|keyfile|connection[._-]?string",
    re.IGNORECASE,
)
_IN_URL = re.compile(
    r"(//[^/?#@\s]*?:)[^/?#@\s]+(@)|((?:password|passwd|pwd|secret|token)=)[^&;\s]+", re.IGNORECASE
)
_TRACE_MAX = 20_000


async def connectors(call: Call) -> Data:
    """See the page's row."""
    may = call.visible(Kind.CONNECTOR)
    workers, rows = call.console.connects, []
    problems = []
    for index, each in enumerate(workers):
        try:
            found = await asyncio.to_thread(each.connectors)
        except HttpProblem as problem:
            problems.append(problem.message)
            continue
        rows += [_row(index, name, entry) for name, entry in sorted(found.items()) if may(name)]
    return {"rows": rows, "workers": [each.url for each in workers], "problems": problems}


def _row(index: int, name: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    status, info = entry.get("status") or {}, entry.get("info") or {}
    tasks = status.get("tasks") or []
    failed = [each for each in tasks if each.get("state") == "FAILED"]
    trace = (status.get("connector") or {}).get("trace") or next((each.get("trace") for each in failed), "")
    return {
        "cluster": index,
        "name": name,
        "kind": status.get("type") or info.get("type") or "",
        "class": str((info.get("config") or {}).get("connector.class", "")).rpartition(".")[2],
        "state": (status.get("connector") or {}).get("state") or "UNKNOWN",
        "tasks": len(tasks),
        "failed": len(failed),
        "error": first_words(trace or ""),
    }


def first_words(trace: str) -> str:
    """What went wrong, of a trace: its innermost cause's own message."""
    lines = [line.strip() for line in trace.splitlines() if line.strip()]
    causes = [line.removeprefix("Caused by:").strip() for line in lines if line.startswith("Caused by:")]
    if causes:
        chosen = causes[-1]
    elif lines and lines[0].startswith("Traceback"):
        chosen = lines[-1]
    else:
        chosen = lines[0] if lines else ""
    kind, colon, message = chosen.partition(": ")
    return (message if colon and " " not in kind else chosen)[:400]


def shown_setting(name: str, value: Any) -> str | None:
    """A setting's value; None for one that is a secret by its name. Passwords in URLs are hidden."""
    if _SECRET.search(name):
        return None
    return _IN_URL.sub(lambda found: f"{found[1] or found[3]}•••{found[2] or ''}", str(value))


def workers_of(call: Call) -> ConnectWorkers:
    """Those that the path names. HttpProblem."""
    text = call.path("cluster")
    if not (text.isascii() and text.isdigit()) or int(text[:6]) >= len(call.console.connects):
        raise HttpProblem(404, "There is no such cluster of Kafka Connect: see moldau.console.connect.urls.")
    return call.console.connects[int(text[:6])]


async def connector(call: Call) -> Data:
    """See the page's row."""
    workers, name = workers_of(call), call.path("connector")
    call.check(Operation.READ, Kind.CONNECTOR, name)
    info, status = await asyncio.to_thread(workers.connector, name)
    index = int(call.path("cluster"))
    row = _row(index, name, {"info": info, "status": status})
    state = status.get("connector") or {}
    return {
        "connector": row,
        "worker": state.get("worker_id", ""),
        "trace": (state.get("trace") or "")[:_TRACE_MAX],
        "task_rows": [
            {
                "task": each.get("id"),
                "state": each.get("state", "UNKNOWN"),
                "worker": each.get("worker_id", ""),
                "error": first_words(each.get("trace") or ""),
                "trace": (each.get("trace") or "")[:_TRACE_MAX],
            }
            for each in status.get("tasks") or []
        ],
        "settings": [
            {"name": key, "value": shown_setting(key, value)}
            for key, value in sorted((info.get("config") or {}).items())
        ],
        "actions": call.actions(
            ["restart-connector", "pause-connector" if row["state"] == "RUNNING" else "resume-connector"],
            cluster=str(index),
            connector=name,
        ),
    }


PAGES = (
    Page(
        "connectors",
        "/connectors",
        "connectors.html",
        "connectors",
        "Connectors and their states",
        connectors,
    ),
    Page(
        "connector",
        "/connectors/{cluster}/{connector}/status",
        "connector.html",
        "connectors",
        "One connector: tasks, the last error, settings",
        connector,
    ),
)
