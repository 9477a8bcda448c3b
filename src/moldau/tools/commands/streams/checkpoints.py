"""`moldau streams list`, `describe` and `reset`: flows, their positions, and removing their checkpoints.

All three work without Spark. If the cluster does not answer, the checkpoints are shown without log ends and
lag.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from moldau.streams.folder import Folder
from moldau.tools.commands.streams.description import (
    LEDGER_SUFFIX,
    FlowDescription,
    committed,
    flows_by_groups,
    known_flows,
    lag,
    log_ends,
    now_seconds,
)
from moldau.tools.shared.errors import CommandError
from moldau.tools.shared.output import headings, note, print_json, print_rows, print_table

if TYPE_CHECKING:
    from moldau.tools.shared.connection import Connection


DESCRIBED = (
    "flow",
    "state",
    "driver",
    "reads",
    "joins",
    "writes",
    "delivery",
    "batch",
    "watermark",
    "lag",
    "group",
    "checkpoint",
)
"""The fields of `describe` before the partitions, in order."""


def show_list(root: Folder, connection: Connection | None, as_json: bool) -> None:
    """Print a line for each flow."""
    flows = known_flows(root)
    if connection is not None:
        known = {(each.app, each.flow) for each in flows}
        flows += [each for each in flows_by_groups(connection) if (each.app, each.flow) not in known]
    now = now_seconds()
    rows = [_row(each, connection, now) for each in sorted(flows, key=lambda each: (each.app, each.flow))]
    columns = headings("app flow state reads target batch lag", target="WRITES")
    print_rows(as_json, rows, columns, empty=f"no flows: none has a checkpoint in {root}")


def _row(flow: FlowDescription, connection: Connection | None, now: float) -> dict[str, object]:
    positions = flow.position.offsets
    if not positions and connection is not None:
        positions = committed(connection, flow.group)
    ends = log_ends(connection, positions) if connection is not None else {}
    owner = flow.owner
    return {
        "app": flow.app,
        "flow": flow.flow,
        "state": flow.state(now),
        "reads": [*owner.streams, *owner.tables] if owner else sorted({topic for topic, _ in positions}),
        "target": owner.target if owner else None,
        "batch": flow.position.batch,
        "lag": lag(positions, ends),
    }


def show_description(
    root: Folder, app: str, flows: Sequence[str], connection: Connection | None, as_json: bool
) -> None:
    """Print the position of each flow by partition."""
    found = require_flows(root, app, flows)
    now = now_seconds()
    documents = [_document(each, connection, now) for each in found]
    if as_json:
        print_json(documents)
        return
    for index, document in enumerate(documents):
        if index:
            print()
        for name in DESCRIBED:
            value = document[name]
            if value not in (None, "", []):
                print(f"{name + ':':<12}{', '.join(value) if isinstance(value, list) else value}")
        columns = headings("topic partition position group_offset end lag", end="LOG-END-OFFSET")
        print_table(document["partitions"], columns, empty="no micro-batch is done yet")


def _document(flow: FlowDescription, connection: Connection | None, now: float) -> dict[str, Any]:
    owner, position = flow.owner, flow.position
    places = sorted(position.offsets)
    ends = log_ends(connection, places) if connection is not None else {}
    group = committed(connection, flow.group) if connection is not None else {}
    batch = str(position.batch) if position.batch is not None else "none done"
    if position.started_batch is not None and position.started_batch != position.batch:
        batch += f" ({position.started_batch} begun)"
    running = flow.state(now) == "running"
    return {
        "app": flow.app,
        "flow": flow.flow,
        "state": flow.state(now),
        "driver": str(flow.driver) if running else None,
        "reads": list(owner.streams) if owner else [],
        "joins": list(owner.tables) if owner else [],
        "writes": owner.target if owner else None,
        "delivery": owner.delivery if owner else None,
        "batch": batch,
        "watermark": _moment(position.watermark_ms),
        "lag": lag(position.offsets, ends),
        "group": flow.group,
        "checkpoint": str(flow.folder),
        "partitions": [
            {
                "topic": place[0],
                "partition": place[1],
                "position": position.offsets[place],
                "group_offset": group.get(place),
                "end": ends.get(place),
                "lag": lag({place: position.offsets[place]}, ends),
            }
            for place in places
        ],
    }


def _moment(timestamp_ms: int) -> str | None:
    if not timestamp_ms:
        return None
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat().replace("+00:00", "Z")


def require_flows(root: Folder, app: str, flows: Sequence[str]) -> list[FlowDescription]:
    """Return the app's flows, or those that are named. CommandError if one does not exist."""
    found = known_flows(root, app, flows)
    missing = sorted(set(flows) - {each.flow for each in found})
    if not found or missing:
        known = ", ".join(sorted({each.app for each in known_flows(root)})) or "none"
        what = f"flow {missing[0]} of app {app}" if missing else f"app {app}"
        raise CommandError(
            f"{what} has no checkpoint in {root} (apps there: {known}): name the folder with --checkpoints"
        )
    return found


def require_stopped(flows: Sequence[FlowDescription]) -> None:
    """CommandError if the app of these flows runs."""
    driver = flows[0].driver
    if driver is not None and driver.is_fresh(now_seconds()):
        raise CommandError(f"app {flows[0].app} runs ({driver}): stop it first")


def forget(root: Folder, flows: Sequence[FlowDescription], connection: Connection | None) -> None:
    """Remove the checkpoints of flows, and the committed offsets of their groups."""
    require_stopped(flows)
    for each in flows:
        if each.folder is not None:
            each.folder.remove()
        note(f"removed {each.folder}")
        if connection is not None:
            _delete_groups(connection, [each.group, each.group + LEDGER_SUFFIX])
    app_folder = root / flows[0].app
    if set(app_folder.names()) <= {"driver.json"}:
        with contextlib.suppress(OSError):
            app_folder.remove()


def _delete_groups(connection: Connection, groups: list[str]) -> None:
    from moldau.client.admin.groups import delete_groups
    from moldau.client.admin.problem import KafkaProblem
    from moldau.common.protocol.errors import ErrorCode
    from moldau.tools.shared.admin import refusal

    for group, code in delete_groups(connection.cluster(), groups).items():
        if not code:
            note(f"removed group {group}")
        elif code != ErrorCode.GROUP_ID_NOT_FOUND:
            note(f"moldau: group {group} stays: {refusal(connection, KafkaProblem(code))}")
