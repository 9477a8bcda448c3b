"""When a notifier speaks: pure, one state a group and notifier.

    verdict >= threshold                     an incident begins: id, start; "open" is sent
    still, and send-interval has passed      "open" again, unless send-once
    verdict OK again                         the incident ends; "close" is sent if send-close and "open" was

A notification that could not be delivered counts as not sent, and is tried again at the next look.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from moldau.services.lag.verdicts import Verdict


@dataclass(frozen=True, slots=True)
class Rule:
    """Burrow's settings of a notifier; seconds."""

    interval: float = 60.0
    """How often groups are looked at."""
    send_interval: float = 60.0
    threshold: int = Verdict.WARN
    send_once: bool = False
    send_close: bool = False


class Notice(NamedTuple):
    """What is to be sent."""

    incident_id: str
    start_ms: int
    closes: bool


@dataclass(slots=True)
class _Incident:
    incident_id: str
    start_ms: int
    sent_ms: int | None = None


@dataclass(slots=True)
class Incidents:
    """The incidents of one notifier."""

    rule: Rule
    make_id: Callable[[], str]
    _open: dict[tuple[str, str], _Incident] = field(default_factory=dict)

    def look(self, cluster: str, group: str, verdict: Verdict, now_ms: int) -> Notice | None:
        """What is due for a group; `sent` follows when it has been delivered."""
        key = (cluster, group)
        incident = self._open.get(key)
        if verdict <= Verdict.OK:
            if incident is None:
                return None
            if incident.sent_ms is None or not self.rule.send_close:
                del self._open[key]
                return None
            return Notice(incident.incident_id, incident.start_ms, True)
        if incident is None:
            incident = self._open[key] = _Incident(self.make_id(), now_ms)
        if verdict < self.rule.threshold:
            return None
        sent_ms = incident.sent_ms
        if sent_ms is not None and (self.rule.send_once or now_ms - sent_ms < self.rule.send_interval * 1000):
            return None
        return Notice(incident.incident_id, incident.start_ms, False)

    def sent(self, cluster: str, group: str, notice: Notice, now_ms: int) -> None:
        """A notice has been delivered."""
        if notice.closes:
            self._open.pop((cluster, group), None)
        elif (incident := self._open.get((cluster, group))) is not None:
            incident.sent_ms = now_ms

    def gone(self, known: set[tuple[str, str]]) -> list[tuple[str, str]]:
        """Groups with an incident that do not exist any more; a close is due for those that were told of."""
        return [key for key in self._open if key not in known]
