"""The brokers of the cluster for `moldau status`: their state and share, and the metadata store.

Counts are those of the cluster's metadata. It names brokers that are gone only as holders of replicas; since
when comes from the health page, if there is one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from moldau.tools.shared.output import headings, print_table

if TYPE_CHECKING:
    from moldau.client.admin.topics import Partition
    from moldau.tools.commands.status.command import Cluster

COLUMNS = headings("id address rack controller state leaders replicas", id="BROKER")


def count_share(cluster: Cluster, partition: Partition) -> None:
    """Count the partition for its leader and its replicas."""
    if partition.leader >= 0:
        cluster.leaders[partition.leader] += 1
    cluster.replicas.update(partition.replicas)


def members(cluster: Cluster, health: dict[str, Any] | None) -> list[dict[str, Any]]:
    """A row for each broker that lives, that has replicas, or that the health page knows."""
    told = {each.get("id"): each for each in (health or {}).get("members", ())}
    rows = {row["id"]: row for row in cluster.brokers}
    gone = cluster.replicas.keys() - rows.keys()
    for node_id in (*told, *gone):
        rack = told.get(node_id, {}).get("rack")
        away = {"id": node_id, "address": "", "rack": rack, "controller": False}
        rows.setdefault(node_id, away)
    shown = []
    for node_id in sorted(rows):
        each = told.get(node_id, {})
        since = each.get("since")
        word = each.get("state", "gone" if node_id in gone else "live")
        state = f"{word} since {since}" if since else word
        share = {"leaders": cluster.leaders[node_id], "replicas": cluster.replicas[node_id]}
        shown.append({**rows[node_id], "state": state, **share})
    return shown


def show_members(cluster: Cluster, health: dict[str, Any] | None) -> None:
    """Print the metadata store, what is being moved, and a table of the brokers."""
    store = (health or {}).get("metadata_store")
    if store is not None:
        state = "reached" if store.get("up") else "not reached"
        latency = f", last answer in {store.get('latency_ms')} ms" if store.get("up") else ""
        print(f"metadata store: {store.get('name')}, {state} for {store.get('since_seconds')} s{latency}")
    moving = (health or {}).get("reassigning_partitions")
    if moving:
        print(f"  {moving} partitions are being reassigned")
    print_table(members(cluster, health), COLUMNS)
