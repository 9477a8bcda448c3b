"""Schemas: subjects, and two versions of one side by side."""

from __future__ import annotations

import asyncio
import difflib
import json
from typing import Any

from moldau.services.console.facts.listing import Wanted, listed
from moldau.services.console.pages.call import Call
from moldau.services.console.pages.table import LIST, Data, Page, Parameter
from moldau.services.console.registry import Registry, Version
from moldau.services.http.problems import HttpProblem
from moldau.services.http.rights import Kind, Operation

_LINES_MAX = 5_000
_EXACT_LINES_MAX = 400


def _registry(call: Call) -> Registry:
    registry = call.console.registry
    if registry is None:
        raise HttpProblem(
            404, "No schema registry is set: start the console with --schema-registry http://HOST:8081."
        )
    return registry


async def schemas(call: Call) -> Data:
    """See the page's row."""
    if call.console.registry is None:
        return {
            "registry": "",
            "rows": [],
            "found": 0,
            "total": 0,
            "page": 1,
            "pages": 1,
            "size": 50,
            "q": "",
        }
    registry = call.console.registry
    may = call.visible(Kind.SUBJECT)
    names = [each for each in await registry.subjects() if may(each)]
    wanted = Wanted.of(call.query, ["name"])
    found = listed(names, wanted, {"name": lambda row: row}, lambda row: row)
    return {
        "registry": registry.url,
        "rows": list(found.rows),
        "found": found.found,
        "total": found.total,
        "page": found.page,
        "pages": found.pages,
        "size": wanted.size,
        "q": wanted.search,
    }


async def versions(call: Call) -> Data:
    """See the page's row."""
    registry, subject = _registry(call), call.path("subject")
    call.check(Operation.READ, Kind.SUBJECT, subject)
    numbers = await registry.versions(subject)
    if not numbers:
        raise HttpProblem(404, f"Subject {subject} has no versions.")
    right_number = call.number("right", numbers[-1])
    earlier = [each for each in numbers if each < right_number]
    left_number = call.number("left", earlier[-1] if earlier else right_number)
    right = await registry.version(subject, right_number)
    left = right if left_number == right_number else await registry.version(subject, left_number)
    rows = await asyncio.to_thread(lambda: side_by_side(printed(left), printed(right)))
    topic = subject.removesuffix("-value").removesuffix("-key")
    snapshot = await call.snapshot()
    return {
        "subject": subject,
        "versions": numbers,
        "left": _version_json(left),
        "right": _version_json(right),
        "level": await registry.level(subject),
        "rows": rows[:_LINES_MAX],
        "differ": any(row["kind"] != "same" for row in rows),
        "topic": topic if topic != subject and topic in snapshot.topics else "",
    }


def _version_json(version: Version) -> dict[str, Any]:
    return {
        "version": version.version,
        "id": version.schema_id,
        "type": version.type,
        "schema": version.text,
        "references": [
            {"name": name, "subject": subject, "version": number}
            for name, subject, number in version.references
        ],
    }


def printed(version: Version) -> list[str]:
    """The lines of a schema: JSON on many lines, Protobuf as it is."""
    if version.type != "PROTOBUF":
        try:
            return json.dumps(json.loads(version.text), indent=2, ensure_ascii=False).splitlines()
        except (ValueError, RecursionError):
            pass
    return version.text.splitlines()


def side_by_side(left: list[str], right: list[str]) -> list[dict[str, Any]]:
    """Rows of two texts; `kind`: same, changed, gone or new. Long texts are compared line for line only where
    they differ (difflib without its heuristics would take quadratic time)."""
    rows: list[dict[str, Any]] = []
    matcher = difflib.SequenceMatcher(None, left, right, autojunk=len(left) + len(right) > _EXACT_LINES_MAX)
    for tag, a, b, c, d in matcher.get_opcodes():
        for step in range(max(b - a, d - c)):
            old = left[a + step] if a + step < b else None
            new = right[c + step] if c + step < d else None
            kind = (
                "same" if tag == "equal" else "gone" if new is None else "new" if old is None else "changed"
            )
            rows.append(
                {
                    "kind": kind,
                    "left": old,
                    "right": new,
                    "left_line": None if old is None else a + step + 1,
                    "right_line": None if new is None else c + step + 1,
                }
            )
    return rows


PAGES = (
    Page(
        "schemas", "/schemas", "schemas.html", "schemas", "The subjects of the schema registry", schemas, LIST
    ),
    Page(
        "schema-versions",
        "/schemas/{subject}/versions",
        "schema_versions.html",
        "schemas",
        "Two versions of a subject side by side",
        versions,
        (
            Parameter("left", "The earlier version.", {"type": "integer", "minimum": 1}),
            Parameter("right", "The later version; the newest if unset.", {"type": "integer", "minimum": 1}),
        ),
    ),
)
