"""Topics: the list, and what one topic is made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from moldau.client.admin.configs import TOPIC, Config, Source, describe_configs
from moldau.client.admin.layout import Layout
from moldau.client.admin.routing import metadata
from moldau.client.admin.transactions import describe_producers
from moldau.client.cluster import Cluster
from moldau.services.console.facts.listing import Wanted, listed
from moldau.services.console.facts.snapshot import Ends, Snapshot, TopicFacts
from moldau.services.console.pages.call import Call
from moldau.services.console.pages.table import LIST, Data, Page, Parameter
from moldau.services.http.rights import Kind

_KEYS: dict[str, Callable[[TopicFacts], Any]] = {
    "name": lambda topic: topic.name,
    "partitions": lambda topic: len(topic.partitions),
    "copies": lambda topic: topic.replication_factor,
    "records": lambda topic: topic.records,
    "size": lambda topic: topic.size_bytes,
    "rate": lambda topic: topic.per_second,
    "out_of_sync": lambda topic: topic.under_replicated,
}
_TOPIC_CHANGES = (
    "produce-record",
    "clone-topic",
    "change-topic",
    "add-partitions",
    "move-topic",
    "cancel-moves",
    "purge-topic",
    "recreate-topic",
    "delete-topic",
)


async def topics(call: Call) -> Data:
    """See the page's row."""
    snapshot = await call.snapshot()
    wanted = Wanted.of(call.query, _KEYS)
    internal = call.query.get("internal", "") == "1"
    may = call.visible(Kind.TOPIC)
    rows = [
        each for each in snapshot.topics.values() if (internal or not each.is_internal) and may(each.name)
    ]
    found = listed(rows, wanted, _KEYS, lambda topic: topic.name)
    return {
        "rows": [_row(call, snapshot, each) for each in found.rows],
        "found": found.found,
        "total": found.total,
        "page": found.page,
        "pages": found.pages,
        "size": wanted.size,
        "q": wanted.search,
        "sort": wanted.sort_text,
        "internal": internal,
        "internal_count": sum(each.is_internal for each in snapshot.topics.values()),
        "actions": call.actions(["create-topic"]),
    }


def _row(call: Call, snapshot: Snapshot, topic: TopicFacts) -> dict[str, Any]:
    return {
        "name": topic.name,
        "internal": topic.is_internal,
        "partitions": len(topic.partitions),
        "copies": topic.replication_factor,
        "records": topic.records,
        "size_bytes": topic.size_bytes,
        "per_second": topic.per_second,
        "out_of_sync": topic.under_replicated,
        "offline": topic.offline,
        "groups": len(snapshot.readers.get(topic.name, ())),
        "course": call.console.cluster.facts.ends.rates(topic.name),
    }


def head(call: Call, snapshot: Snapshot, topic: TopicFacts) -> dict[str, Any]:
    """What all pages of a topic show above."""
    return {
        "topic": {**_row(call, snapshot, topic)},
        "actions": call.actions(_TOPIC_CHANGES, topic=topic.name),
    }


async def partitions(call: Call) -> Data:
    """See the page's row."""
    topic, snapshot = await call.topic(), await call.snapshot()
    return {
        **head(call, snapshot, topic),
        "partitions": [
            {
                "partition": each.partition_id,
                "leader": each.leader,
                "replicas": each.replicas,
                "in_sync": each.in_sync,
                "preferred": not each.replicas or each.leader == each.replicas[0],
                **_ends(snapshot.ends.get((topic.name, each.partition_id))),
            }
            for each in topic.partitions
        ],
        "brokers": sorted(snapshot.brokers),
    }


def _ends(ends: Ends | None) -> dict[str, int | None]:
    if ends is None:
        return {"start": None, "end": None, "records": None}
    return {"start": ends.start, "end": ends.end, "records": ends.end - ends.start}


async def settings(call: Call) -> Data:
    """See the page's row."""
    topic, snapshot = await call.topic(), await call.snapshot()
    found = await call.console.cluster.call(lambda cluster: describe_configs(cluster, TOPIC, [topic.name]))
    rows = sorted(found.get(topic.name, ()), key=lambda each: (each.is_default, each.name))
    return {**head(call, snapshot, topic), "settings": [setting_json(each) for each in rows]}


SOURCES = {
    Source.DYNAMIC_TOPIC_CONFIG: "topic",
    Source.DYNAMIC_BROKER_CONFIG: "this broker, changed while it ran",
    Source.DYNAMIC_DEFAULT_BROKER_CONFIG: "all brokers, changed while they ran",
    Source.STATIC_BROKER_CONFIG: "the broker's file",
    Source.DEFAULT_CONFIG: "default",
}


def setting_json(config: Config) -> dict[str, Any]:
    """A setting with where its value comes from."""
    return {
        "name": config.name,
        "value": config.value,
        "source": SOURCES.get(config.source, config.source.name.lower()),
        "is_default": config.is_default,
        "is_sensitive": config.is_sensitive,
        "is_read_only": config.is_read_only,
        "others": [
            {
                "name": each.name,
                "value": each.value,
                "source": SOURCES.get(each.source, each.source.name.lower()),
            }
            for each in config.synonyms[1:]
        ],
    }


async def readers(call: Call) -> Data:
    """See the page's row."""
    topic, snapshot = await call.topic(), await call.snapshot()
    may = call.visible(Kind.GROUP)
    rows = []
    for name in snapshot.readers.get(topic.name, ()):
        if not may(name):
            continue
        group = snapshot.groups[name]
        members = group.described.members if group.described is not None else ()
        held = sum(place[0] == topic.name for member in members for place in member.assignment)
        rows.append(
            {
                "group": name,
                "state": group.state,
                "members": group.members,
                "partitions": held,
                "lag": group.lag,
                "course": call.console.cluster.facts.lags.course(name),
            }
        )
    return {**head(call, snapshot, topic), "groups": rows, "groups_known": snapshot.groups_known}


async def producers(call: Call) -> Data:
    """See the page's row."""
    topic, snapshot = await call.topic(), await call.snapshot()
    places = [(topic.name, each.partition_id) for each in topic.partitions if each.leader >= 0]

    def ask(cluster: Cluster) -> Any:
        metadata(cluster, [topic.name])  # this client may not know the brokers' addresses yet
        known = {(topic.name, each.partition_id): each for each in topic.partitions}
        where = Layout(cluster, snapshot.cluster_id, snapshot.controller_id, snapshot.brokers, known)
        return describe_producers(where, places)

    found = await call.console.cluster.call(ask) if places else {}
    rows = [
        {
            "partition": place[1],
            "producer_id": each.producer_id,
            "epoch": each.producer_epoch,
            "last_sequence": each.last_sequence,
            "last_at_ms": each.last_timestamp_ms if each.last_timestamp_ms >= 0 else None,
            "open_since_offset": each.start_offset,
        }
        for place, producers in sorted(found.items())
        for each in producers
    ]
    return {**head(call, snapshot, topic), "producers": rows}


PAGES = (
    Page(
        "topics",
        "/topics",
        "topics.html",
        "topics",
        "The list of topics",
        topics,
        (*LIST, Parameter("internal", "1: with the cluster's own topics.")),
    ),
    Page(
        "topic-partitions",
        "/topics/{topic}/partitions",
        "topic_partitions.html",
        "topics",
        "The partitions of a topic: leaders, copies, offsets",
        partitions,
    ),
    Page(
        "topic-settings",
        "/topics/{topic}/settings",
        "topic_settings.html",
        "topics",
        "The settings of a topic, and where each comes from",
        settings,
    ),
    Page(
        "topic-readers",
        "/topics/{topic}/readers",
        "topic_readers.html",
        "topics",
        "The groups that read a topic",
        readers,
    ),
    Page(
        "topic-producers",
        "/topics/{topic}/producers",
        "topic_producers.html",
        "topics",
        "The producers that write to a topic with sequence numbers or transactions",
        producers,
    ),
)
