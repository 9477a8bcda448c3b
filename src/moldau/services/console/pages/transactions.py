"""Transactions: those that are open, how long, and why read_committed stands still in a partition."""

from __future__ import annotations

import time
from typing import Any

from moldau.client.admin.layout import Layout
from moldau.client.admin.routing import metadata
from moldau.client.admin.transactions import describe_transactions, list_transactions
from moldau.client.cluster import Cluster
from moldau.services.console.pages.call import Call
from moldau.services.console.pages.table import Data, Page, Parameter
from moldau.services.http.rights import Kind, Operation

OPEN_STATES = ("Ongoing", "PrepareCommit", "PrepareAbort")
_SHOWN_MAX = 500


async def transactions(call: Call) -> Data:
    """See the page's row."""
    call.check(Operation.READ, Kind.CLUSTER, "kafka")
    snapshot = await call.snapshot()
    everything = call.query.get("all", "") == "1"

    def ask(cluster: Cluster) -> tuple[int, Any]:
        metadata(cluster, [])
        where = Layout(cluster, snapshot.cluster_id, snapshot.controller_id, snapshot.brokers, {})
        found = list_transactions(where, states=() if everything else OPEN_STATES)
        some = found[:_SHOWN_MAX]
        described, _ = describe_transactions(cluster, [each.transactional_id for each in some], some)
        return len(found), described

    total, described = await call.console.cluster.call(ask)
    now_ms = time.time_ns() // 1_000_000
    rows = [_row(each, now_ms) for each in described]
    rows.sort(key=lambda row: -(row["open_ms"] or 0))
    return {
        "rows": rows,
        "total": total,
        "all": everything,
        "stuck": [row for row in rows if row["stuck"]],
    }


def _row(each: Any, now_ms: int) -> dict[str, Any]:
    open_ms = None if each.start_ms is None else max(0, now_ms - each.start_ms)
    return {
        "transactional_id": each.transactional_id,
        "producer_id": each.producer_id,
        "epoch": each.producer_epoch,
        "state": each.state,
        "coordinator": each.coordinator,
        "timeout_ms": each.timeout_ms,
        "open_ms": open_ms,
        "started_at_ms": each.start_ms,
        "partitions": [{"topic": topic, "partition": index} for topic, index in each.partitions],
        "stuck": each.state == "Ongoing" and open_ms is not None and open_ms > each.timeout_ms,
        "ends_in_ms": None
        if open_ms is None or each.state != "Ongoing"
        else max(0, each.timeout_ms - open_ms),
    }


PAGES = (
    Page(
        "transactions",
        "/transactions",
        "transactions.html",
        "transactions",
        "Transactions that are open, and what they hold up",
        transactions,
        (Parameter("all", "1: also transactional ids without an open transaction."),),
    ),
)
