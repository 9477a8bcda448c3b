"""Ends a cluster in order, and removes one.

Brokers end one after the other, so that each can hand its leadership over (controlled shutdown), the
controller last, because it notices who leaves; then ZooKeeper, its leader last. A server that does not end
within the limit is killed, and that is said.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from moldau.tools.cluster import lock, plan, processes, secured
from moldau.tools.cluster.picture import look
from moldau.tools.cluster.plan import Plan
from moldau.tools.cluster.servers import BrokerServer, EnsembleServer, Server
from moldau.tools.shared.errors import CommandError
from moldau.tools.shared.output import note

PURGE_TIMEOUT_SECONDS = 5.0


def stop(
    root: Path,
    layout: Plan,
    timeout_seconds: float,
    *,
    only: Sequence[int] | None = None,
    report: Callable[[str], None] = lambda words: None,
) -> list[str]:
    """Stop the brokers in `only`, or everything; return the names of the servers that ran."""
    order: list[Server] = list(_brokers_in_order(root, layout, only))
    if only is None:
        order += _zookeepers_in_order(root, layout)
    stopped = []
    for server in order:
        process = processes.alive(server.folder)
        if process is None:
            processes.forget(server.folder)
            continue
        report(f"stopping {server.name}")
        if not process.end(timeout_seconds):
            note(
                f"moldau: {server.name} did not end within {timeout_seconds:.0f} s and was killed; its log: "
                f"{server.log}"
            )
        processes.forget(server.folder)
        stopped.append(server.name)
    return stopped


def purge(root: Path, layout: Plan, report: Callable[[str], None] = lambda words: None) -> None:
    """End all servers and delete their folders; whatever else lies in the cluster's folder stays."""
    brokers = [BrokerServer(root, layout, node_id) for node_id in layout.broker_ids]
    zookeepers = [EnsembleServer(root, layout, number) for number in layout.zookeeper_ids]
    servers: list[Server] = [*brokers, *zookeepers]
    for server in servers:
        process = processes.alive(server.folder)
        if process is not None:
            report(f"ending {server.name}")
            process.end(PURGE_TIMEOUT_SECONDS)
        try:
            shutil.rmtree(server.folder)
        except FileNotFoundError:
            pass
        except OSError as problem:
            raise CommandError(f"{server.folder} cannot be deleted: {problem.strerror}") from None
    if layout.secure:
        secured.remove(root)
    (root / plan.FILE).unlink(missing_ok=True)
    (root / lock.FILE).unlink(missing_ok=True)
    if not any(root.iterdir()):
        root.rmdir()


def _brokers_in_order(root: Path, layout: Plan, only: Sequence[int] | None) -> list[BrokerServer]:
    chosen = [
        BrokerServer(root, layout, node_id)
        for node_id in layout.broker_ids
        if only is None or node_id in only
    ]
    if len(chosen) < 2:
        return chosen
    controllers = [each.id for each in look(root, layout).servers if each.controller]
    return sorted(chosen, key=lambda each: each.node_id in controllers)


def _zookeepers_in_order(root: Path, layout: Plan) -> list[EnsembleServer]:
    servers = [EnsembleServer(root, layout, number) for number in layout.zookeeper_ids]
    return sorted(servers, key=lambda each: each.zookeeper.mode() == "leader")
