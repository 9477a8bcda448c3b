"""What there is to do for a sink: its topics' ends, and how far its group is. For engine_choice.py.

Asked by Moldau's own client, which is one connection; a client of librdkafka has threads and megabytes, and
there may be a hundred connectors.
"""

from __future__ import annotations

from collections.abc import Sequence

from moldau.client.cluster import Cluster
from moldau.client.errors import ClientError
from moldau.client.errors import Retriable as ClientRetriable
from moldau.common.core.clock import Clock
from moldau.common.core.java_patterns import compile_java
from moldau.connect.errors import Retriable
from moldau.services.connect.runtime.engine_choice import Look
from moldau.services.connect.runtime.rows import SINK_ROWS, settings_of
from moldau.services.connect.runtime.setup import TaskSetup

_LATEST, _EARLIEST = -1, -2


class SinkDemand:
    """Of one connector."""

    def __init__(self, setup: TaskSetup, clock: Clock) -> None:
        """ConnectError: a setting is wrong."""
        self._clock, self._group = clock, setup.group
        rows = settings_of(SINK_ROWS, setup.config, setup.connector)
        self._topics: Sequence[str] = rows["topics"]
        self._pattern = compile_java(rows["topics.regex"]) if rows["topics.regex"] else None
        self._cluster: Cluster = setup.cluster()

    def look(self) -> Look:
        """Blocks for some milliseconds, ten seconds at most. Retriable."""
        try:
            known = self._cluster.topics()
            places = [(name, each) for name in filter(self._is_read, known) for each in range(known[name])]
            if not places:
                return Look(self._clock.monotonic_ms(), 0, 0, 0)
            ends = self._cluster.offsets(dict.fromkeys(places, _LATEST))
            starts = self._cluster.offsets(dict.fromkeys(places, _EARLIEST))
            committed = self._cluster.committed_offsets(self._group, places)
        except (ClientError, ClientRetriable, OSError) as failed:
            raise Retriable(f"its topics cannot be looked at: {failed}") from failed
        lag = sum(max(end - max(committed.get(each, 0), starts[each]), 0) for each, end in ends.items())
        return Look(self._clock.monotonic_ms(), sum(ends.values()), lag, len(places))

    def _is_read(self, topic: str) -> bool:
        if self._pattern is None:
            return topic in self._topics
        return not topic.startswith("__") and self._pattern.fullmatch(topic) is not None

    def close(self) -> None:
        """Let go of the connections."""
        self._cluster.close()
