"""Apps and flows that are not running here: from their checkpoints, their groups, and the cluster.

A flow's position is that of its checkpoint; its group's offsets are a copy for Kafka's tools, committed a
moment later. So the checkpoint is used where it is at hand. Where it is not (an app on another machine), the
group `streams.APP.FLOW` shows that the flow exists, and its lag.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from moldau.streams.checkpoints import Owner, Position, checkpoints_in, position_of
from moldau.streams.folder import Folder
from moldau.streams.lease import Driver, driver_of
from moldau.streams.names import app_and_flow, group_of

if TYPE_CHECKING:
    from moldau.tools.shared.connection import Connection

LEDGER_SUFFIX = "-batches"
"""The group in which the exactly-once sink notes a flow's micro-batches is no flow."""

Place = tuple[str, int]


@dataclass(frozen=True)
class FlowDescription:
    """A flow's position, state and group."""

    app: str
    flow: str
    folder: Folder | None = None
    owner: Owner | None = None
    position: Position = field(default_factory=Position)
    driver: Driver | None = None

    @property
    def group(self) -> str:
        """Its consumer group."""
        return group_of(self.app, self.flow)

    def state(self, now: float) -> str:
        """running, stopped, or unknown if only its group is known."""
        if self.owner is None:
            return "elsewhere"
        return "running" if self.driver is not None and self.driver.is_fresh(now) else "stopped"


def known_flows(root: Folder, app: str | None = None, flows: Iterable[str] = ()) -> list[FlowDescription]:
    """The flows with checkpoints in a folder."""
    wanted = set(flows)
    return [
        FlowDescription(
            owner.app, owner.flow, folder, owner, position_of(folder), driver_of(root / owner.app)
        )
        for folder, owner in checkpoints_in(root)
        if (app is None or owner.app == app) and (not wanted or owner.flow in wanted)
    ]


def flows_by_groups(connection: Connection) -> list[FlowDescription]:
    """The flows that have a consumer group."""
    from moldau.client.admin.groups import list_groups

    found = []
    for group in list_groups(connection.cluster()):
        names = app_and_flow(group.group_id)
        if names is not None and not group.group_id.endswith(LEDGER_SUFFIX):
            found.append(FlowDescription(*names))
    return found


def committed(connection: Connection, group: str) -> dict[Place, int]:
    """The committed offsets of a group."""
    from moldau.client.admin.groups import committed_offsets

    return {place: each.offset for place, each in committed_offsets(connection.cluster(), group).items()}


def log_ends(connection: Connection, places: Iterable[Place]) -> dict[Place, int]:
    """The log end offsets of partitions; those that do not exist or have no leader are left out."""
    from moldau.client.admin.groups import end_offsets

    return end_offsets(connection.cluster(), places)


def lag(positions: Mapping[Place, int], ends: Mapping[Place, int]) -> int | None:
    """The number of records still to be read; None if unknown."""
    known = [ends[place] - offset for place, offset in positions.items() if place in ends]
    return sum(max(each, 0) for each in known) if known else None


def now_seconds() -> float:
    """The time, in seconds since 1970."""
    return time.time()
