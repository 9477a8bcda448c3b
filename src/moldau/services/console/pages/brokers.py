"""Brokers: what each leads and holds, how even it is, its directories and settings."""

from __future__ import annotations

from typing import Any

from moldau.client.admin.configs import BROKER, describe_configs
from moldau.client.admin.log_dirs import log_directories
from moldau.client.admin.problem import KafkaProblem
from moldau.client.admin.routing import metadata
from moldau.client.cluster import Cluster
from moldau.client.errors import ClientError, error_words
from moldau.common.protocol.errors import ErrorCode
from moldau.services.console.pages.call import Call
from moldau.services.console.pages.table import Data, Page, Parameter
from moldau.services.console.pages.topics import setting_json
from moldau.services.http.problems import HttpProblem
from moldau.services.http.rights import Kind, Operation

_LARGEST = 20


async def brokers(call: Call) -> Data:
    """See the page's row."""
    snapshot = await call.snapshot()
    shares = snapshot.broker_shares
    alive = max(1, len(snapshot.brokers))
    leaders = sum(row[0] for row in shares.values())
    replicas = sum(row[1] for row in shares.values())
    told = call.console.cluster.facts.told
    rows = []
    for broker_id, (leads, holds, behind) in shares.items():
        broker = snapshot.brokers.get(broker_id)
        health = told.get(broker_id, {})
        rows.append(
            {
                "broker": broker_id,
                "address": f"{broker.host}:{broker.port}" if broker is not None else None,
                "rack": broker.rack if broker is not None else None,
                "alive": broker is not None,
                "controller": broker_id == snapshot.controller_id,
                "leaders": leads,
                "replicas": holds,
                "out_of_sync": behind,
                "leader_skew": _skew(leads, leaders / alive) if broker is not None else None,
                "replica_skew": _skew(holds, replicas / alive) if broker is not None else None,
                "verdict": health.get("verdict"),
                "version": health.get("version"),
            }
        )
    return {
        "rows": rows,
        "leaders": leaders,
        "replicas": replicas,
        "alive": len(snapshot.brokers),
        "actions": call.actions(["elect-preferred"]),
    }


def _skew(has: int, fair: float) -> float | None:
    """How much more than its share it has: 0.1 is a tenth more."""
    return has / fair - 1 if fair >= 1 else None


def _broker_id(call: Call) -> int:
    text = call.path("broker")
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise HttpProblem(404, f"{text[:40]} is no broker's id.")
    return int(text)


async def broker(call: Call) -> Data:
    """See the page's row."""
    call.check(Operation.READ, Kind.CLUSTER, "kafka")
    broker_id, snapshot = _broker_id(call), await call.snapshot()
    if broker_id not in snapshot.brokers:
        raise KafkaProblem(ErrorCode.BROKER_NOT_AVAILABLE, f"There is no broker {broker_id} at the moment.")
    name = str(broker_id)
    found = await call.console.cluster.call(lambda cluster: describe_configs(cluster, BROKER, [name]))
    word = call.query.get("q", "")[:100].strip().lower()
    everything = sorted(found.get(name, ()), key=lambda each: (each.is_default, each.name))
    rows = [each for each in everything if word in each.name.lower()]
    where = snapshot.brokers[broker_id]
    return {
        "broker": {"broker": broker_id, "address": f"{where.host}:{where.port}", "rack": where.rack},
        "settings": [setting_json(each) for each in rows],
        "found": len(rows),
        "total": len(everything),
        "q": call.query.get("q", "")[:100].strip(),
    }


async def directories(call: Call) -> Data:
    """See the page's row."""
    call.check(Operation.READ, Kind.CLUSTER, "kafka")
    broker_id, snapshot = _broker_id(call), await call.snapshot()
    if broker_id not in snapshot.brokers:
        raise KafkaProblem(ErrorCode.BROKER_NOT_AVAILABLE, f"There is no broker {broker_id} at the moment.")

    def ask(cluster: Cluster) -> Any:
        metadata(cluster, [])
        return log_directories(cluster, broker_id)

    try:
        found = await call.console.cluster.call(ask)
    except ClientError as problem:
        raise KafkaProblem(ErrorCode.UNKNOWN_SERVER_ERROR, str(problem)) from None
    where = snapshot.brokers[broker_id]
    return {
        "broker": {"broker": broker_id, "address": f"{where.host}:{where.port}", "rack": where.rack},
        "directories": [
            {
                "path": each.path,
                "problem": error_words(each.error_code) if each.error_code else "",
                "total_bytes": each.total_bytes if each.total_bytes >= 0 else None,
                "usable_bytes": each.usable_bytes if each.usable_bytes >= 0 else None,
                "used_bytes": each.used_bytes,
                "replicas": len(each.replicas),
                "largest": [
                    {"topic": row.place[0], "partition": row.place[1], "size_bytes": row.size_bytes}
                    for row in sorted(each.replicas, key=lambda row: -row.size_bytes)[:_LARGEST]
                ],
            }
            for each in found
        ],
    }


PAGES = (
    Page("brokers", "/brokers", "brokers.html", "brokers", "The brokers: what each leads and holds", brokers),
    Page(
        "broker",
        "/brokers/{broker}/settings",
        "broker_settings.html",
        "brokers",
        "The settings of a broker, and where each comes from",
        broker,
        (Parameter("q", "Only settings whose names have this."),),
    ),
    Page(
        "broker-directories",
        "/brokers/{broker}/directories",
        "broker_directories.html",
        "brokers",
        "The log directories of a broker and the largest partitions in them",
        directories,
    ),
)
