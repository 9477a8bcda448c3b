"""Starts what is missing of a cluster, and waits until it is whole.

First the ensemble, then all brokers at once. Whole means: every broker is registered, and every replica of
every partition is in sync. What runs already is left alone, so that a start repairs a cluster of which some
servers have died, and changes nothing about one that is well.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from moldau.ensemble import EnsembleError
from moldau.tools.cluster import processes, secured
from moldau.tools.cluster.picture import Picture, look
from moldau.tools.cluster.plan import Plan
from moldau.tools.cluster.servers import (
    BrokerServer,
    EnsembleServer,
    Server,
    broker_environment,
    port_in_use,
)
from moldau.tools.shared.errors import CommandError, UsageError
from moldau.tools.shared.output import note

POLL_SECONDS = 0.1
LOG_LINES_SHOWN = 12


class Started(NamedTuple):
    """The result: which servers this start has started, and what is there now."""

    names: list[str]
    picture: Picture


def check_change(root: Path, before: Plan | None, plan: Plan) -> None:
    """Raise CommandError if the cluster that exists cannot become this one."""
    check_settings(plan)
    if before is None:
        return
    if plan.secure and not before.secure:
        raise UsageError(
            f"the cluster in {root} is not secured: change it step by step "
            "(docs/security-rolling-change.md), or begin anew with `moldau cluster purge`"
        )
    if plan.brokers < before.brokers:
        _require_empty(look(root, before), plan.brokers)
    if plan.zookeepers != before.zookeepers:
        raise UsageError(
            f"the ensemble in {root} has {before.zookeepers} ZooKeeper server(s), and that number stays: "
            "begin anew with `moldau cluster purge`"
        )
    alive = [each.name for each in all_servers(root, before) if processes.alive(each.folder) is not None]
    ports = ("port", "http_port", "zookeeper_port")
    if alive and any(getattr(plan, name) != getattr(before, name) for name in ports):
        raise UsageError(f"ports cannot change while {alive[0]} runs: `moldau cluster stop` first")
    if alive and plan.settings != before.settings:
        note(f"moldau: {', '.join(alive)}: new settings take effect when these are started the next time")


def _require_empty(picture: Picture, count: int) -> None:
    """Raise UsageError unless the brokers beyond `count` are stopped, and the others hold all replicas."""
    for seen in picture.servers:
        if seen.kind != "broker" or seen.id <= count:
            continue
        if seen.pid is not None or picture.registered is None or picture.replicas[seen.id]:
            raise UsageError(
                f"to have {count} brokers, {seen.name} must go first, while the others run: "
                f"`moldau brokers drain {seen.id}`, `moldau cluster stop --broker {seen.id}`, "
                f"`moldau brokers remove {seen.id}`; or begin anew with `moldau cluster purge`"
            )


def check_settings(plan: Plan) -> None:
    """Raise UsageError for a setting that no broker would accept; note those that do not exist."""
    from moldau.common.settings.rows import SettingError
    from moldau.common.settings.sources import from_texts

    try:
        for sentence in from_texts(plan.settings).warnings:
            note(f"moldau: {sentence}")
    except SettingError as problem:
        raise UsageError(f"--set: {problem.sentence}") from None


def all_servers(root: Path, plan: Plan) -> list[Server]:
    """Every server of the plan, in the order in which they start."""
    zookeepers = [EnsembleServer(root, plan, number) for number in plan.zookeeper_ids]
    return [*zookeepers, *(BrokerServer(root, plan, node_id) for node_id in plan.broker_ids)]


def start(
    root: Path,
    plan: Plan,
    timeout_seconds: float,
    *,
    only: Sequence[int] | None = None,
    report: Callable[[str], None] = lambda words: None,
) -> Started:
    """Start what does not run (of the brokers those in `only`) and wait until the cluster is whole.

    CommandError: a port is taken, a server ended, or the time is over; what was started goes on running.
    """
    deadline = time.monotonic() + timeout_seconds
    servers = all_servers(root, plan)
    missing = [each for each in servers if processes.alive(each.folder) is None]
    if plan.secure:
        secured.prepare(root, plan, something_runs=len(missing) < len(servers))
    if only is not None:
        missing = [each for each in missing if not isinstance(each, BrokerServer) or each.node_id in only]
    for server in missing:
        _require_ports(server)
    zookeepers = [each for each in missing if isinstance(each, EnsembleServer)]
    brokers = [each for each in missing if isinstance(each, BrokerServer)]
    report("starting ZooKeeper")
    for zookeeper in zookeepers:
        _spawn(zookeeper)
    _wait_for_zookeepers(root, plan, zookeepers, deadline)
    report("starting the brokers")
    for broker in brokers:
        _spawn(broker)
    picture = _wait_until_whole(root, plan, brokers, deadline, report)
    if plan.secure and picture.registered is not None:
        secured.make_admin(root, plan)
    return Started([each.name for each in missing], picture)


def _require_ports(server: Server) -> None:
    taken = port_in_use(server)
    if taken is not None:
        option, port = taken
        raise CommandError(
            f"port {port}, which {server.name} needs, is in use by another program: stop that, or choose "
            f"other ports with {option}"
        )


def _spawn(server: Server) -> None:
    try:
        command = server.prepare()
    except EnsembleError as problem:
        raise CommandError(str(problem)) from None
    server.folder.mkdir(parents=True, exist_ok=True)
    processes.spawn(command, server.folder, server.log, broker_environment())


def _wait_for_zookeepers(root: Path, plan: Plan, started: Sequence[EnsembleServer], deadline: float) -> None:
    """Wait until a majority serves; where all are up, all of them."""
    waiting = [EnsembleServer(root, plan, number) for number in plan.zookeeper_ids]
    while waiting:
        for server in started:
            _require_alive(server)
        waiting = [each for each in waiting if each.zookeeper.mode() is None]
        if waiting and time.monotonic() > deadline:
            raise CommandError(f"{waiting[0].name} does not serve yet{_tail(waiting[0])}")
        if waiting:
            time.sleep(POLL_SECONDS)


def _wait_until_whole(
    root: Path, plan: Plan, started: Sequence[Server], deadline: float, report: Callable[[str], None]
) -> Picture:
    while True:
        picture = look(root, plan)
        for server in started:  # after the look: what has ended by then is not in it
            _require_alive(server)
        missing = unfinished(picture)
        if not missing:
            return picture
        if time.monotonic() > deadline:
            raise CommandError(
                f"the cluster is not whole yet: {missing}. It goes on by itself: see `moldau cluster "
                "status`, or wait longer with --timeout"
            )
        report(missing)
        time.sleep(POLL_SECONDS)


def unfinished(picture: Picture) -> str:
    """Return what is still to come before the running servers are a whole cluster; "" for nothing."""
    running = [each for each in picture.servers if each.kind == "broker" and each.state == processes.RUNNING]
    if not running:
        return ""
    if picture.registered is None:
        return "no broker serves clients"
    unregistered = [each.name for each in running if each.id not in picture.registered]
    if unregistered:
        return f"{', '.join(unregistered)} not registered"
    starting = [each.name for each in running if not each.ready]
    if starting:
        return f"{', '.join(starting)} not ready"
    if picture.offline:
        return f"{len(picture.offline)} of {picture.partitions} partitions without a leader"
    if picture.under_replicated and not picture.dead:
        return f"{len(picture.under_replicated)} of {picture.partitions} partitions not in sync"
    return ""


def _require_alive(server: Server) -> None:
    if processes.alive(server.folder) is None:
        raise CommandError(
            f"{server.name} ended instead of serving; the others run, and `moldau cluster start` starts it "
            f"again{_tail(server)}"
        )


def _tail(server: Server) -> str:
    try:
        lines = server.log.read_text(errors="replace").splitlines()[-LOG_LINES_SHOWN:]
    except OSError:
        return ""
    return f" ({server.log}):\n" + "\n".join(f"  {line}" for line in lines) if lines else ""
