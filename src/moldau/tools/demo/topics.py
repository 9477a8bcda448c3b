"""The demo's topics: created if missing, refused if they hold records.

The demo checks every record of its topics, so it needs empty ones. With a broker that runs already
(`--bootstrap-server`) or a folder that was used before (`--data`) they may not be; then it ends with an
error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moldau.tools.shared.errors import CommandError

DEPARTURES, WEATHER = "departures", "weather"
HOURS, CARRIERS = "delays-by-hour", "delays-by-carrier"
DEPARTURE_PARTITIONS = 6
WEATHER_PARTITIONS = 2
EARLIEST, LATEST = -2, -1
TIMEOUT_SECONDS = 15.0


def make_topics(bootstrap_servers: str, client: Mapping[str, str] | None = None) -> None:
    """Create the topics that the demo's producer writes to. CommandError if a topic of the demo holds
    records. `client`: settings of security, under Java's names or librdkafka's.
    """
    from confluent_kafka.admin import AdminClient, NewTopic

    from moldau.tools.shared.connection import librdkafka_settings

    existing = _empty_topics(bootstrap_servers, client or {})
    wanted = [
        NewTopic(DEPARTURES, DEPARTURE_PARTITIONS),
        NewTopic(WEATHER, WEATHER_PARTITIONS, config={"cleanup.policy": "compact"}),
    ]
    missing = [each for each in wanted if each.topic not in existing]
    if missing:
        settings: dict[str, Any] = {"bootstrap.servers": bootstrap_servers, "log_level": 3}
        admin = AdminClient({**settings, **librdkafka_settings(dict(client or {}))})
        for answer in admin.create_topics(missing).values():
            answer.result(TIMEOUT_SECONDS)


def _empty_topics(bootstrap_servers: str, client: Mapping[str, str]) -> set[str]:
    """The demo's topics that exist. CommandError if one is not empty, or no broker answers."""
    from moldau.client.cluster import Cluster
    from moldau.client.errors import ClientError

    try:
        with Cluster(bootstrap_servers, client, first_contact_seconds=TIMEOUT_SECONDS) as cluster:
            counts = cluster.topics()
            names = [name for name in (DEPARTURES, WEATHER, HOURS, CARRIERS) if name in counts]
            places = [(name, index) for name in names for index in range(counts[name])]
            first = cluster.offsets(dict.fromkeys(places, EARLIEST)) if places else {}
            last = cluster.offsets(dict.fromkeys(places, LATEST)) if places else {}
    except ClientError as failure:
        raise CommandError(str(failure)) from failure
    for name in names:
        records = sum(last[place] - first[place] for place in places if place[0] == name)
        if records:
            raise CommandError(
                f"topic {name} at {bootstrap_servers} is not empty ({records:,} records), and the demo "
                "checks every record of its topics: nothing was changed. If they are an earlier demo's, "
                f"`moldau topics delete {' '.join(names)} -b {bootstrap_servers}` removes them"
            )
    return set(names)
