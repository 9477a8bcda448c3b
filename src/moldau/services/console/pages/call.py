"""One request: who asks, what the URL says, and the console's parts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from starlette.requests import Request

from moldau.client.admin.problem import KafkaProblem
from moldau.common.protocol.errors import ErrorCode
from moldau.services.console.access import Access
from moldau.services.console.changes.audit import Audit
from moldau.services.console.changes.undo import Undo
from moldau.services.console.connect_client import ConnectWorkers
from moldau.services.console.facts.snapshot import GroupFacts, Snapshot, TopicFacts
from moldau.services.console.registry import Registry
from moldau.services.console.settings import ConsoleConfiguration
from moldau.services.http.application import path_value, principal_of
from moldau.services.http.context import Principal
from moldau.services.http.problems import HttpProblem
from moldau.services.http.rights import Kind, Operation

if TYPE_CHECKING:
    from moldau.services.console.changes.change import Change, Done
    from moldau.services.console.cluster import ClusterAccess


@dataclass
class Console:
    """The parts of the console that pages use."""

    configuration: ConsoleConfiguration
    cluster: ClusterAccess
    access: Access
    audit: Audit
    undo: Undo
    changes: Mapping[str, Change]
    """By name."""
    registry: Registry | None = None
    connects: Sequence[ConnectWorkers] = ()
    done: dict[str, Done] = field(default_factory=dict)
    """What was done of late, by an id that the page after it names."""
    sent: dict[str, asyncio.Future[Done]] = field(default_factory=dict)
    """Previews that were sent of late, by an id of each, and what came or will come of them."""


class Call:
    """One request."""

    def __init__(self, console: Console, request: Request) -> None:
        self.console = console
        self.request = request
        self.query: Mapping[str, str] = request.query_params

    @property
    def principal(self) -> Principal:
        """Who asks."""
        return principal_of(self.request)

    @property
    def wants_json(self) -> bool:
        """Whether a program asks: what is wrong is an error response then, not a line on the page."""
        path: str = self.request.scope["path"]
        return path.endswith(".json") or path.startswith("/api/")

    def path(self, name: str) -> str:
        """A part of the path, decoded."""
        return path_value(self.request, name)

    def number(self, name: str, default: int, least: int = 0, most: int = 2**63 - 1) -> int:
        """A number of the query; `default` where there is none. HttpProblem 400."""
        text = self.query.get(name, "").strip()
        if not text:
            return default
        digits = text.removeprefix("-")
        if not (digits.isascii() and digits.isdigit() and len(digits) < 20) or not least <= int(text) <= most:
            raise HttpProblem(400, f"{name}={text[:40]} is no number from {least} to {most}.")
        return int(text)

    def choice(self, name: str, allowed: Sequence[str], default: str) -> str:
        """A word of the query. HttpProblem 400."""
        text = self.query.get(name, "") or default
        if text not in allowed:
            raise HttpProblem(400, f"{name}={text[:40]} is not known: there are {', '.join(allowed)}.")
        return text

    def may(self, operation: Operation, kind: Kind, name: str) -> bool:
        """Whether the one who asks may do this."""
        return self.console.access.may(self.principal, operation, kind, name)

    def check(self, operation: Operation, kind: Kind, name: str) -> None:
        """HttpProblem 403."""
        self.console.access.check(self.principal, operation, kind, name)

    async def snapshot(self) -> Snapshot:
        """The newest. KafkaProblem."""
        return await self.console.cluster.facts.snapshot()

    async def topic(self) -> TopicFacts:
        """The topic that the path names, which the one who asks may see. HttpProblem, KafkaProblem."""
        name = self.path("topic")
        self.check(Operation.READ, Kind.TOPIC, name)
        return await self.console.cluster.topic(name)

    async def group(self) -> GroupFacts:
        """The group that the path names. HttpProblem, KafkaProblem."""
        name = self.path("group")
        self.check(Operation.READ, Kind.GROUP, name)
        found = (await self.snapshot()).groups.get(name)
        if found is None:
            await self.console.cluster.facts.looked_for()
            found = (await self.snapshot()).groups.get(name)
        if found is None:
            raise KafkaProblem(ErrorCode.GROUP_ID_NOT_FOUND, f"There is no group {name}.")
        return found

    def visible(self, kind: Kind) -> Callable[[str], bool]:
        """Which names may be seen."""
        return self.console.access.readable(self.principal, kind) or (lambda name: True)

    def actions(self, names: Sequence[str], **target: str) -> list[dict[str, Any]]:
        """The changes of these names as links; those that are not allowed say so."""
        from urllib.parse import quote

        found = []
        for name in names:
            change = self.console.changes.get(name)
            if change is None:
                continue
            path = change.path
            for key, value in target.items():
                path = path.replace(f"{{{key}}}", quote(value, safe=""))
            allowed = self.may(change.operation, change.kind, target.get(change.named_by, ""))
            if change.named_by not in target:
                allowed = self.console.access.may_change(self.principal)
            found.append({"name": name, "title": change.title, "path": path, "allowed": allowed})
        return found
