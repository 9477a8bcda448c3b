"""Tags of Avro's records and fields. The first record of the name counts, breadth first."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

from moldau.schemas.json_text import read, write
from moldau.schemas.tags import TagChange, change_member, no_such_path


def with_tags(canonical: str, changes: Sequence[TagChange]) -> str:
    """See moldau.schemas.tags."""
    root = read(canonical)
    for change in changes:
        change_member(_entity(root, change), change)
    return write(root)


def _entity(root: Any, change: TagChange) -> dict[str, Any]:
    *space, name = change.steps
    field_name: str | None = None
    if change.is_field:
        if not space:
            raise no_such_path(change)
        field_name, name = name, space.pop()
    wanted = ".".join(space)
    waiting: deque[tuple[Any, Any]] = deque([(root, None)])
    while waiting:
        node, outer = waiting.popleft()
        if isinstance(node, list):
            waiting.extend((each, outer) for each in node)
        if not isinstance(node, dict):
            continue
        within = node.get("namespace", outer)
        if node.get("type") != "record":
            waiting.extend((node.get(member), within) for member in ("type", "items", "values"))
            continue
        if node["name"] == name and wanted in ("", within):
            if field_name is None:
                return node
            for field in node["fields"]:
                if field["name"] == field_name:
                    found: dict[str, Any] = field
                    return found
        else:
            waiting.extend((field, within) for field in node["fields"])
    raise no_such_path(change)
