"""Copies that are being moved, and how far each is."""

from __future__ import annotations

from typing import Any

from moldau.client.admin.layout import Place
from moldau.client.admin.log_dirs import log_directories_if_told
from moldau.client.admin.reassignments import Move, find_moves
from moldau.client.admin.routing import metadata
from moldau.client.cluster import Cluster
from moldau.services.console.pages.call import Call
from moldau.services.console.pages.table import Data, Page
from moldau.services.http.rights import Kind, Operation

_SHOWN_MAX = 1_000


async def moves(call: Call) -> Data:
    """See the page's row."""
    call.check(Operation.READ, Kind.CLUSTER, "kafka")
    snapshot = await call.snapshot()

    def ask(cluster: Cluster) -> tuple[dict[Place, Move], dict[tuple[Place, int], int]]:
        found = find_moves(cluster)
        sizes: dict[tuple[Place, int], int] = {}
        if found:
            metadata(cluster, [])
            brokers = {broker for move in found.values() for broker in move.replicas} & set(snapshot.brokers)
            for broker in sorted(brokers):
                for directory in log_directories_if_told(cluster, broker):
                    for replica in directory.replicas:
                        if replica.place in found:
                            sizes[replica.place, broker] = replica.size_bytes
        return found, sizes

    found, sizes = await call.console.cluster.call(ask)
    may = call.visible(Kind.TOPIC)
    rows = [_row(place, move, sizes) for place, move in found.items() if may(place[0])]
    return {"rows": rows[:_SHOWN_MAX], "total": len(rows)}


def _row(place: Place, move: Move, sizes: dict[tuple[Place, int], int]) -> dict[str, Any]:
    whole = max((sizes.get((place, each), 0) for each in move.replicas if each not in move.adding), default=0)
    copied = min((sizes.get((place, each), 0) for each in move.adding), default=whole)
    return {
        "topic": place[0],
        "partition": place[1],
        "replicas": [each for each in move.replicas if each not in move.adding and each not in move.removing],
        "adding": move.adding,
        "removing": move.removing,
        "size_bytes": whole,
        "copied_bytes": min(copied, whole),
    }


PAGES = (Page("moves", "/brokers/moves", "moves.html", "brokers", "Copies that are being moved", moves),)
