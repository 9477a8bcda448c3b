"""The demo's topics: created if missing, refused if they hold records.

The demo checks every record of its topics, so it needs empty ones. With a broker that runs already
(`--bootstrap-server`) or a folder that was used before (`--data`) they may not be; then it ends with an
error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from moldau.tools.shared.errors import CommandError, explain_kafka_failure

if TYPE_CHECKING:
    from moldau.client.cluster import Cluster

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
    from moldau.client.admin.topics import NewTopic, create_topics, raise_first
    from moldau.client.cluster import Cluster
    from moldau.client.errors import ClientError

    wanted = [
        NewTopic(DEPARTURES, DEPARTURE_PARTITIONS),
        NewTopic(WEATHER, WEATHER_PARTITIONS, configs={"cleanup.policy": "compact"}),
    ]
    try:
        with Cluster(bootstrap_servers, client, first_contact_seconds=TIMEOUT_SECONDS) as cluster:
            existing = _empty_topics(cluster)
            missing = [each for each in wanted if each.name not in existing]
            raise_first(create_topics(cluster, missing, timeout_seconds=TIMEOUT_SECONDS)[1])
    except ClientError as failure:
        raise CommandError(explain_kafka_failure(failure) or str(failure)) from failure


def _empty_topics(cluster: Cluster) -> set[str]:
    """The demo's topics that exist. CommandError if one is not empty."""
    counts = cluster.topics()
    names = [name for name in (DEPARTURES, WEATHER, HOURS, CARRIERS) if name in counts]
    places = [(name, index) for name in names for index in range(counts[name])]
    first, last = (cluster.offsets(dict.fromkeys(places, when)) for when in (EARLIEST, LATEST))
    for name in names:
        records = sum(last[place] - first[place] for place in places if place[0] == name)
        if records:
            raise CommandError(
                f"topic {name} at {cluster.bootstrap_servers} is not empty ({records:,} records), and the "
                "demo checks every record of its topics: nothing was changed. If they are an earlier demo's, "
                f"`moldau topics delete {' '.join(names)} -b {cluster.bootstrap_servers}` removes them"
            )
    return set(names)
