"""`moldau brokers rebalance`: evens leaders, replicas and bytes over the brokers (rebalance_plan.py)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from moldau.common.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from moldau.tools.shared.options import (
    DEFAULT_AT_ONCE,
    DEFAULT_BOOTSTRAP,
    DEFAULT_TIMEOUT_SECONDS,
    AtOnce,
    Bootstrap,
    ClientSettings,
    Json,
    Throttle,
    Timeout,
    teach,
)
from moldau.tools.shared.output import note, print_json, print_table

if TYPE_CHECKING:
    from moldau.tools.commands.transactions.routing import Place, Routing

_LOG_DIRS_VERSION = 4
_ELECT_VERSION = 2

HELP = """Even out leaders, replicas and bytes over the brokers, and copy as little as possible for it.

Racks are kept: no partition has fewer than before. Look at the plan first.

Examples:

* moldau brokers rebalance --dry-run
* moldau brokers rebalance --throttle 20000000
"""


def rebalance(
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what each broker would hold; move nothing.")
    ] = False,
    throttle: Throttle = None,
    at_once: AtOnce = DEFAULT_AT_ONCE,
    as_json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    client_settings: ClientSettings = None,
    timeout: Timeout = DEFAULT_TIMEOUT_SECONDS,
) -> None:
    """Even out the load (see HELP)."""
    from moldau.tools.commands.brokers import rebalance_plan
    from moldau.tools.commands.topics.reassign_plan import plan_json
    from moldau.tools.commands.transactions.routing import routing_of
    from moldau.tools.shared.connection import Connection
    from moldau.tools.shared.racks import racks_in_service

    routing = routing_of(Connection(bootstrap, client_settings, timeout))
    racks = racks_in_service(routing)
    replicas = {place: copies.replicas for place, copies in routing.partitions.items()}
    sizes = partition_sizes(routing)
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
        _carry_out(routing, targets, throttle, at_once)
    if as_json:
        print_json({"partitions": len(targets), "bytes": copied})
    else:
        print(f"{len(targets)} partitions changed, {copied:,} bytes copied" if targets else "All is even.")


def partition_sizes(routing: Routing) -> dict[Place, int]:
    """The size of each partition in its largest replica, as far as the brokers tell it."""
    from moldau.tools.shared.errors import CommandError

    sizes: dict[Place, int] = {}
    for broker in routing.brokers:
        try:
            answer = routing.ask(broker, DescribeLogDirsRequest(topics=None), _LOG_DIRS_VERSION)
        except CommandError:
            note(f"moldau: broker {broker} does not tell the sizes of its partitions")
            continue
        for directory in answer.results:
            for topic in directory.topics:
                for each in topic.partitions:
                    place = (topic.name, each.partition_index)
                    sizes[place] = max(sizes.get(place, 0), each.partition_size)
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
    routing: Routing, targets: Mapping[Place, Sequence[int]], throttle: int | None, at_once: int
) -> None:
    from moldau.common.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
    from moldau.tools.commands.brokers.waiting import Countdown
    from moldau.tools.shared.moving import Moving

    with Countdown("partitions to be changed") as countdown:
        moving = Moving(
            routing, targets, report=countdown.show, rate_bytes_per_second=throttle, at_once=at_once
        )
        try:
            moving.run()
        except KeyboardInterrupt:
            note("moldau: what is under way goes on; `moldau brokers rebalance` again does the rest")
            raise
    topics: dict[str, list[int]] = {}
    for name, index in targets:
        topics.setdefault(name, []).append(index)
    rows = [TopicPartitions(topic=name, partitions=indexes) for name, indexes in topics.items()]
    request = ElectLeadersRequest(
        election_type=0, topic_partitions=rows, timeout_ms=int(routing.timeout_seconds * 1000)
    )
    routing.ask(next(iter(routing.brokers)), request, _ELECT_VERSION)


def register(app: typer.Typer) -> None:
    """Add the command to `moldau brokers`."""
    app.command("rebalance", help=teach(HELP))(rebalance)
