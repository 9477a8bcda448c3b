"""What a Connect worker says of its cluster's connectors: which have failed, and why."""

from __future__ import annotations

from typing import Any, NamedTuple

from moldau.tools.shared.errors import CommandError
from moldau.tools.shared.output import note


class Connectors(NamedTuple):
    """A worker's answer."""

    status: str
    failed: dict[str, str]
    """Connectors (`name`) and tasks (`name-0`), with the cause."""

    @property
    def severity(self) -> int:
        """Return 0 ok, 1 degraded."""
        return int(bool(self.failed) or self.status != "healthy")


def ask_connectors(url: str) -> Connectors:
    """Ask one; a worker that does not answer is `unreachable`, and its own words say why."""
    from moldau.tools.commands.connect.requests import Connect

    try:
        found: Any = Connect(url, None).get("health")
    except CommandError as problem:
        return Connectors("unreachable", {url: str(problem)})
    failed = found.get("failed") if isinstance(found, dict) else None
    status = str(found.get("status")) if isinstance(found, dict) else "unreachable"
    return Connectors(status, dict(failed) if isinstance(failed, dict) else {})


def show_connectors(found: Connectors) -> None:
    """Print those that failed."""
    for name, cause in sorted(found.failed.items()):
        note(f"connect: {name}: {cause}")
    if not found.failed:
        note(f"connect: {found.status}, nothing has failed")
