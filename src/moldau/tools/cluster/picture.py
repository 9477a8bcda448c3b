"""The present state of a local cluster: processes, each broker's health, partitions.

Nothing here fails because something is missing; what is missing is the news.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from moldau.tools.cluster import secured
from moldau.tools.cluster.plan import Plan
from moldau.tools.cluster.processes import GONE, RUNNING, Process, recorded
from moldau.tools.cluster.servers import BrokerServer, EnsembleServer
from moldau.tools.commands.status.health_page import HealthRefused, ask_health

if TYPE_CHECKING:
    from moldau.client.admin.layout import Layout

METADATA_TIMEOUT_SECONDS = 3.0
OK, DEGRADED, FAILING = "ok", "degraded", "failing"
STOPPED = "stopped"


@dataclass(slots=True)
class Seen:
    """One server; `health` is a broker's verdict or a ZooKeeper's role."""

    kind: str
    id: int
    address: str
    pid: int | None
    state: str
    log: Path
    health: str | None = None
    ready: bool = False
    causes: list[str] = field(default_factory=list)
    leaders: int | None = None
    controller: bool = False

    @property
    def name(self) -> str:
        """How it is called to the user."""
        return f"{self.kind} {self.id}"

    def as_json(self) -> dict[str, Any]:
        """Return it for programs."""
        return {
            "kind": self.kind,
            "id": self.id,
            "address": self.address,
            "pid": self.pid,
            "state": self.state,
            "health": self.health,
            "causes": self.causes,
            "leaders": self.leaders,
            "controller": self.controller,
            "log": str(self.log),
        }


@dataclass(slots=True)
class Picture:
    """The whole cluster. `registered` is None if no broker answered for the cluster."""

    servers: list[Seen]
    registered: list[int] | None = None
    partitions: int = 0
    replicas: Counter[int] = field(default_factory=Counter)
    """How many replicas each broker has."""
    under_replicated: list[str] = field(default_factory=list)
    offline: list[str] = field(default_factory=list)

    @property
    def dead(self) -> list[Seen]:
        """The servers that do not run."""
        return [each for each in self.servers if each.state != RUNNING]

    @property
    def verdict(self) -> str:
        """Return ok, degraded or failing."""
        if self.registered is None or self.offline or any(each.health == FAILING for each in self.servers):
            return FAILING
        worse = self.dead or self.under_replicated or any(each.health not in _GOOD for each in self.servers)
        return DEGRADED if worse else OK

    def as_json(self) -> dict[str, Any]:
        """Return it for programs."""
        return {
            "status": self.verdict,
            "servers": [each.as_json() for each in self.servers],
            "registered_brokers": self.registered,
            "partitions": self.partitions,
            "under_replicated_partitions": self.under_replicated,
            "offline_partitions": self.offline,
        }


_GOOD = (OK, "standalone", "leader", "follower")


def look(root: Path, plan: Plan) -> Picture:
    """Look at every server of the plan, at all brokers' health pages at once."""
    zookeepers = [(number, EnsembleServer(root, plan, number)) for number in plan.zookeeper_ids]
    brokers = [BrokerServer(root, plan, node_id) for node_id in plan.broker_ids]
    with ThreadPoolExecutor(max_workers=min(16, len(brokers) + len(zookeepers))) as pool:
        modes = [pool.submit(each.zookeeper.mode) for _, each in zookeepers]
        pages = [pool.submit(_health, each.http) for each in brokers]
    picture = Picture([])
    for (number, one), mode in zip(zookeepers, modes, strict=True):
        pid, state = _process(one.folder)
        role = mode.result() if state == RUNNING else None
        picture.servers.append(Seen("ZooKeeper", number, one.address, pid, state, one.log, role))
    for each, page in zip(brokers, pages, strict=True):
        pid, state = _process(each.folder)
        seen = Seen("broker", each.node_id, each.address, pid, state, each.log)
        health = page.result() if state == RUNNING else None
        if health is not None:
            seen.health = str(health.get("verdict"))
            seen.ready = health.get("state") == "running"
            seen.causes = [str(cause.get("message")) for cause in health.get("causes", ())]
        picture.servers.append(seen)
    if any(each.kind == "broker" and each.state == RUNNING for each in picture.servers):
        more = secured.admin_settings(root) if plan.secure else {}
        _ask_partitions(picture, lambda bootstrap: _layout(bootstrap, more))
    return picture


def _health(http: str) -> dict[str, Any] | None:
    try:
        return ask_health(http)
    except HealthRefused:
        return None


def _process(folder: Path) -> tuple[int | None, str]:
    process: Process | None = recorded(folder)
    if process is None:
        return None, STOPPED
    state = process.state()
    return (None if state == GONE else process.pid), state


def _ask_partitions(picture: Picture, read: Callable[[str], Layout]) -> None:
    from moldau.client.errors import ClientError

    running = [s.address for s in picture.servers if s.kind == "broker" and s.state == RUNNING]
    try:
        layout = read(",".join(running))
    except ClientError:
        return
    picture.registered = sorted(layout.brokers)
    leaders: Counter[int] = Counter()
    for (name, index), partition in layout.partitions.items():
        picture.partitions += 1
        leaders[partition.leader] += 1
        picture.replicas.update(partition.replicas)
        if partition.leader < 0:
            picture.offline.append(f"{name}-{index}")
        elif len(partition.in_sync) < len(partition.replicas):
            picture.under_replicated.append(f"{name}-{index}")
    for seen in picture.servers:
        if seen.kind == "broker":
            seen.leaders = leaders[seen.id]
            seen.controller = layout.controller_id == seen.id


def _layout(bootstrap: str, settings: dict[str, str]) -> Layout:
    from moldau.client.admin.layout import layout
    from moldau.tools.shared.connection import cluster_of

    with cluster_of(bootstrap, settings, METADATA_TIMEOUT_SECONDS) as cluster:
        return layout(cluster)
