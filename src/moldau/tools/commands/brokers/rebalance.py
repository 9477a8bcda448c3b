"""`moldau brokers rebalance`: evens leaders, replicas and bytes over the brokers (rebalance_plan.py)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from moldau.client.admin.log_dirs import log_directories_if_told
from moldau.tools.shared.options import DEFAULT_AT_ONCE, AtOnce, Connect, Json, Throttle, connected
from moldau.tools.shared.output import note, print_json, print_table

if TYPE_CHECKING:
    from moldau.client.admin.layout import Layout, Place


HELP = """Even out leaders, replicas and bytes over the brokers, and copy as little as possible for it.

Racks are kept: no partition has fewer than before. Look at the plan first.

Examples:

* moldau brokers rebalance --dry-run
* moldau brokers rebalance --throttle 20000000
"""


@connected
def rebalance(
    connect: Connect,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what each broker would hold; move nothing.")
    ] = False,
    throttle: Throttle = None,
    at_once: AtOnce = DEFAULT_AT_ONCE,
    as_json: Json = False,
) -> None:
    """Even out the load (see HELP)."""
    from moldau.tools.commands.brokers import rebalance_plan
    from moldau.tools.commands.topics.reassign_plan import plan_json

    layout = connect().layout()
    racks = {each.broker_id: each.rack for each in layout.brokers.values()}
    replicas = layout.replicas
    sizes = partition_sizes(layout)
    targets = rebalance_plan.rebalance(replicas, sizes, racks)
    copied = rebalance_plan.moved_bytes(replicas, sizes, targets)
    if dry_run:
        if as_json:
            print_json({**plan_json(targets), "bytes": copied})
        else:
            _show(replicas, sizes, targets, racks)
            print(f"{len(targets)} partitions would change, {copied:,} bytes would be copied")
        return
    if targets:
        _carry_out(layout, targets, throttle, at_once)
    if as_json:
        print_json({"partitions": len(targets), "bytes": copied})
    else:
        print(f"{len(targets)} partitions changed, {copied:,} bytes copied" if targets else "All is even.")


def partition_sizes(layout: Layout) -> dict[Place, int]:
    """The size of each partition in its largest replica, as far as the brokers tell it."""
    sizes: dict[Place, int] = {}
    for broker in layout.brokers:
        directories = log_directories_if_told(layout.cluster, broker)
        if not directories:
            note(f"moldau: broker {broker} does not tell the sizes of its partitions")
        for directory in directories:
            for each in directory.replicas:
                sizes[each.place] = max(sizes.get(each.place, 0), each.size_bytes)
    return sizes


def _show(
    replicas: Mapping[Place, Sequence[int]],
    sizes: Mapping[Place, int],
    targets: Mapping[Place, Sequence[int]],
    racks: Mapping[int, str | None],
) -> None:
    after = {**replicas, **targets}
    rows = []
    for broker in sorted(racks):
        row: dict[str, Any] = {"broker": broker}
        for name, held in (("", replicas), ("_after", after)):
            mine = [place for place, nodes in held.items() if broker in nodes]
            row[f"leaders{name}"] = Counter(nodes[0] for nodes in held.values())[broker]
            row[f"replicas{name}"] = len(mine)
            row[f"bytes{name}"] = sum(sizes.get(place, 0) for place in mine)
        rows.append(row)
    columns = {"broker": "BROKER"}
    for name in ("leaders", "replicas", "bytes"):
        columns[name], columns[f"{name}_after"] = name.upper(), f"{name.upper()} AFTER"
    print_table(rows, columns)


def _carry_out(
    layout: Layout, targets: Mapping[Place, Sequence[int]], throttle: int | None, at_once: int
) -> None:
    from moldau.client.admin.elections import PREFERRED, elect_leaders
    from moldau.tools.commands.brokers.waiting import Countdown
    from moldau.tools.shared.moving import Moving

    with Countdown("partitions to be changed") as countdown:
        moving = Moving(
            layout, targets, report=countdown.show, rate_bytes_per_second=throttle, at_once=at_once
        )
        try:
            moving.run()
        except KeyboardInterrupt:
            note("moldau: what is under way goes on; `moldau brokers rebalance` again does the rest")
            raise
    elect_leaders(layout.cluster, PREFERRED, targets, layout.cluster.options.api_timeout_seconds)
