"""Tags of Avro's records and fields. The first record of the name counts, breadth first."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from moldau.schemas.json_text import read, write
from moldau.schemas.tags import TagChange, change_member, no_such_path

_INNER = {"array": "items", "map": "values"}


def with_tags(canonical: str, changes: Sequence[TagChange]) -> str:
    """See moldau.schemas.tags."""
    root = read(canonical)
    by_name: dict[str, list[_Record]] = {}
    for each in _records(root):
        by_name.setdefault(each.node["name"], []).append(each)
    for change in changes:
        change_member(_entity(by_name, change), change)
    return write(root)


class _Record(NamedTuple):
    node: dict[str, Any]
    namespace: str | None


def _records(root: Any) -> Iterator[_Record]:
    """Breadth first."""
    waiting: deque[tuple[Any, Any]] = deque([(root, None)])
    while waiting:
        node, outer = waiting.popleft()
        if isinstance(node, list):
            waiting.extend((each, outer) for each in node)
        if not isinstance(node, dict):
            continue
        kind = node["type"]
        if kind == "record":
            within = node.get("namespace", outer)
            yield _Record(node, within)
            waiting.extend(([field["type"]], within) for field in node["fields"])
        else:  # any other member may be a property that only looks like a type
            waiting.append((node[_INNER[kind]] if isinstance(kind, str) and kind in _INNER else kind, outer))


def _entity(by_name: Mapping[str, Sequence[_Record]], change: TagChange) -> dict[str, Any]:
    *space, name = change.steps
    field_name: str | None = None
    if change.is_field:
        if not space:
            raise no_such_path(change)
        field_name, name = name, space.pop()
    wanted = ".".join(space)
    for node, namespace in by_name.get(name, ()):
        if wanted not in ("", namespace):
            continue
        if field_name is None:
            return node
        for field in node["fields"]:
            if field["name"] == field_name:
                found: dict[str, Any] = field
                return found
    raise no_such_path(change)
