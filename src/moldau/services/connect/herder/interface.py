"""What the REST interface asks of a herder; a standalone and a distributed one have it.

Calls wait (`async`), at most for what the request needs: a write that is read back from the topic, an answer
of the leader. What only the leader may do is refused by others with NotLeader, and the route sends the
request there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from moldau.services.connect.runtime.interface import State, Status, TaskId


class HerderProblem(Exception):
    """A request that is refused; `status` is the HTTP status, the message is for the person who asked."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class NotLeader(HerderProblem):
    """Only the leader may do it. `leader_url` ends without a slash; empty: none is known."""

    def __init__(self, message: str, leader_url: str) -> None:
        super().__init__(409, message)
        self.leader_url = leader_url


@dataclass(frozen=True, slots=True)
class ConnectorInfo:
    """A connector as it is configured."""

    name: str
    config: Mapping[str, str]
    """As it was given: references to secrets stay references."""
    tasks: Sequence[TaskId]
    kind: str
    """`source`, `sink`, or `unknown` where its class cannot be found."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A status, and the worker that told it (`HOST:PORT`)."""

    status: Status
    worker_id: str


@dataclass(frozen=True, slots=True)
class ConnectorStatus:
    """How a connector and its tasks are."""

    name: str
    kind: str
    connector: Placed
    tasks: Mapping[int, Placed] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OffsetRow:
    """One row of `…/offsets`: of a source what it says; of a sink {kafka_topic, kafka_partition},
    {kafka_offset}."""

    partition: Mapping[str, Any]
    offset: Mapping[str, Any] | None
    """None, in a request: forget it."""


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """Of `GET /`."""

    version: str
    commit: str
    kafka_cluster_id: str


@dataclass(frozen=True, slots=True)
class WorkerHealth:
    """Of `GET /health` (KIP-1017)."""

    status: str
    """`healthy`, `starting`, `unhealthy`."""
    message: str
    failed: Mapping[str, str] = field(default_factory=dict)
    """Connectors and tasks (`name`, `name-0`) that have failed, with the first sentence of why."""


class Herder(Protocol):
    """Every call may raise HerderProblem: 404 for a connector that does not exist, 409 while work is
    distributed
    anew, 500 where the topics do not answer in time."""

    def server_info(self) -> ServerInfo:
        """Who this is."""

    def health(self, may_see: Callable[[str], bool]) -> WorkerHealth:
        """Whether the worker can do its work; of connectors that have failed, those that may be seen."""

    def is_source(self, name: str) -> bool:
        """Whether the connector is a source. HerderProblem 404."""

    async def connectors(self) -> Sequence[str]:
        """All names, sorted."""

    async def info(self, name: str) -> ConnectorInfo:
        """What a connector is."""

    async def status(self, name: str) -> ConnectorStatus:
        """How it is."""

    async def task_configs(self, name: str) -> Sequence[tuple[TaskId, Mapping[str, str]]]:
        """Its tasks with their configurations."""

    async def put_config(
        self, name: str, config: Mapping[str, str], target: State | None, *, may_replace: bool
    ) -> tuple[bool, ConnectorInfo]:
        """Make or (where it may) replace a connector; whether it was made.

        The configuration has been validated (validation/), by the route. 409: it exists. NotLeader.
        """

    async def patch_config(self, name: str, patch: Mapping[str, str | None]) -> Mapping[str, str]:
        """The configuration with these changes (null: removed), not written yet; the route validates and
        puts it."""

    async def delete(self, name: str) -> None:
        """Remove it, and its tasks. NotLeader."""

    async def set_target(self, name: str, target: State) -> None:
        """RUNNING, PAUSED or STOPPED; returns when it is written. NotLeader for STOPPED, and of what is
        stopped."""

    async def restart_connector(self, name: str) -> None:
        """The connector alone, where it runs. NotLeader."""

    async def restart_task(self, task: TaskId) -> None:
        """One task, where it runs. NotLeader."""

    async def restart(self, name: str, *, only_failed: bool, include_tasks: bool) -> ConnectorStatus:
        """Both (KIP-745); the status as it will be: RESTARTING what is restarted. NotLeader."""

    async def offsets(self, name: str) -> Sequence[OffsetRow]:
        """Where it stands."""

    async def alter_offsets(self, name: str, rows: Sequence[OffsetRow]) -> str:
        """Set offsets of a stopped connector (400 otherwise); what to tell the user. NotLeader."""

    async def reset_offsets(self, name: str) -> str:
        """Forget all offsets of a stopped connector; what to tell the user. NotLeader."""

    async def active_topics(self, name: str) -> Sequence[str]:
        """Topics that it has used since they were reset. 403 where that is not kept."""

    async def reset_topics(self, name: str) -> None:
        """Forget them. 403."""

    async def set_cluster_logger(self, logger: str, level: str) -> None:
        """On all workers (KIP-976)."""

    async def put_task_configs(
        self, name: str, configs: Sequence[Mapping[str, str]], signature: Signature
    ) -> None:
        """From another worker: its connector wants these tasks. 403, 400 about the signature. NotLeader."""

    async def fence_zombies(self, name: str, signature: Signature) -> None:
        """From another worker: before a source's tasks start, end what older ones wrote. NotLeader."""


@dataclass(frozen=True, slots=True)
class Signature:
    """Of a request between workers (KIP-507): HMAC of the body with the session key."""

    body: bytes
    algorithm: str | None
    """Header X-Connect-Request-Signature-Algorithm; None: it is missing."""
    value: bytes | None
    """Header X-Connect-Authorization, decoded from base64; None: it is missing, or no base64."""
