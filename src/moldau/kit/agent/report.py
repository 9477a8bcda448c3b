"""What the agent says about itself: status as JSON, metrics for Prometheus, health."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from moldau.kit.agent.http_listener import Reply, json_reply

if TYPE_CHECKING:
    from moldau.kit.agent.connections import Connections
    from moldau.kit.agent.counters import Counters
    from moldau.kit.agent.delivery import Delivery
    from moldau.kit.agent.intake import Intake
    from moldau.kit.agent.lane import Lane

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Report:
    """Reads the agent's parts when it is asked."""

    def __init__(
        self, intake: Intake, delivery: Delivery, counters: Counters, connections: Connections
    ) -> None:
        self._intake = intake
        self._delivery = delivery
        self._counters = counters
        self._connections = connections
        self._started_seconds = time.monotonic()

    def pages(self) -> dict[str, Callable[[], Reply]]:
        """The pages of the HTTP port."""
        return {
            "/status": lambda: json_reply(200, self.status()),
            "/health": self._health,
            "/metrics": lambda: (200, METRICS_TYPE, "".join(self._metrics()).encode()),
        }

    def _health(self) -> Reply:
        delivery = self._delivery
        fine = delivery.state == "delivering"
        return json_reply(200 if fine else 503, {"delivery": delivery.state, "problem": delivery.problem})

    def status(self) -> dict[str, object]:
        """Everything, by topic."""
        delivery = self._delivery
        lanes = list(self._intake.lanes.values())
        return {
            "pid": os.getpid(),
            "id": delivery.transactional_id,
            "uptime_seconds": round(time.monotonic() - self._started_seconds, 1),
            "delivery": delivery.state,
            "problem": delivery.problem,
            "connections": len(self._connections),
            "topics": {lane.topic: self._topic(lane) for lane in lanes},
            "elsewhere": self._elsewhere(),
        }

    def _topic(self, lane: Lane) -> dict[str, object]:
        counters = self._counters.of(lane.topic)
        spool = lane.spool
        return {
            "waiting": spool.next_number - spool.position if spool else 0,
            "spool_bytes": spool.size_bytes if spool else 0,
            "spool_bytes_max": lane.quota.spool_bytes,
            "held": lane.held_because,
            "accepted": counters.accepted,
            "duplicates": counters.duplicates,
            "delivered": counters.delivered,
            "refused": dict(+counters.refused),
            "discarded": dict(counters.discarded),
        }

    def _elsewhere(self) -> dict[str, object]:
        """What was refused or discarded before it had a topic with a lane."""
        refused: dict[str, int] = {}
        discarded: dict[str, int] = {}
        for topic, counters in list(self._counters.topics.items()):
            if topic not in self._intake.lanes:
                for reason, count in counters.refused.items():
                    refused[reason] = refused.get(reason, 0) + count
                for reason, count in counters.discarded.items():
                    discarded[reason] = discarded.get(reason, 0) + count
        return {"refused": refused, "discarded": discarded}

    def _metrics(self) -> Iterator[str]:
        topics = list(self._counters.topics.items())
        lanes = [(lane.topic, lane.spool) for lane in list(self._intake.lanes.values())]
        yield from _family(
            "accepted", "counter", "On the agent's disk.", ((t, c.accepted) for t, c in topics)
        )
        yield from _family(
            "accepted_bytes", "counter", "Their bytes.", ((t, c.accepted_bytes) for t, c in topics)
        )
        yield from _family(
            "duplicates", "counter", "Sent again by their source.", ((t, c.duplicates) for t, c in topics)
        )
        yield from _family("delivered", "counter", "Written to Kafka.", ((t, c.delivered) for t, c in topics))
        for name, text in (
            ("refused", "Answered with an error."),
            ("discarded", "Gone; see the discard reports."),
        ):
            yield f"# HELP moldau_agent_{name}_total {text}\n# TYPE moldau_agent_{name}_total counter\n"
            for topic, counters in topics:
                for reason, count in (+getattr(counters, name)).items():
                    yield f'moldau_agent_{name}_total{{topic="{topic}",reason="{reason}"}} {count}\n'
        waiting = ((topic, spool.next_number - spool.position) for topic, spool in lanes if spool)
        yield from _family("waiting", "gauge", "On the disk, not delivered.", waiting)
        sizes = ((topic, spool.size_bytes) for topic, spool in lanes if spool)
        yield from _family("spool_bytes", "gauge", "What the topic's spool takes on the disk.", sizes)
        held = ((lane.topic, int(bool(lane.held_because))) for lane in list(self._intake.lanes.values()))
        yield from _family("held", "gauge", "1 while the topic cannot be delivered.", held)
        for name, kind, value in (
            ("connections", "gauge", len(self._connections)),
            ("connections_refused_total", "counter", self._counters.connections_refused),
            ("intake_bytes", "gauge", self._intake.waiting_bytes),
            ("unfinished_input_bytes", "gauge", self._connections.partial_bytes),
            ("disk_syncs_total", "counter", self._counters.syncs),
            ("disk_errors_total", "counter", self._counters.disk_errors),
            ("rounds_total", "counter", self._delivery.rounds),
            ("delivering", "gauge", int(self._delivery.state == "delivering")),
        ):
            yield f"# TYPE moldau_agent_{name} {kind}\nmoldau_agent_{name} {value}\n"


def _family(name: str, kind: str, text: str, rows: Iterator[tuple[str, int]]) -> Iterator[str]:
    """One metric by topic; names of topics need no escaping (message.py checks them)."""
    full = f"moldau_agent_{name}{'_total' if kind == 'counter' else ''}"
    yield f"# HELP {full} {text}\n# TYPE {full} {kind}\n"
    for topic, value in rows:
        yield f'{full}{{topic="{topic}"}} {value}\n'
