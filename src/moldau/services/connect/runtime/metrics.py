"""What a task counts, under Kafka Connect's names (connector-task-metrics, sink-task-metrics, …).

Rates are those of the last half minute. One writer, the task's thread; readers take what they find.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping

from moldau.common.core.clock import Clock

_WINDOW_MS = 30_000
_SAMPLE_MS = 1_000

SINK = (
    "sink-record-read-total",
    "sink-record-send-total",
    "offset-commit-completion-total",
    "offset-commit-skip-total",
)
SOURCE = (
    "source-record-poll-total",
    "source-record-write-total",
    "transaction-total",
)
ERRORS = (
    "total-record-failures",
    "total-record-errors",
    "total-records-skipped",
    "total-retries",
    "total-errors-logged",
    "deadletterqueue-produce-requests",
    "deadletterqueue-produce-failures",
)
_RATES = {
    "sink-record-read-total": "sink-record-read-rate",
    "sink-record-send-total": "sink-record-send-rate",
    "source-record-poll-total": "source-record-poll-rate",
    "source-record-write-total": "source-record-write-rate",
    "offset-commit-completion-total": "offset-commit-completion-rate",
}


class TaskMetrics:
    """Of one task, over its restarts."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._counts: dict[str, float] = defaultdict(float)
        self._gauges: dict[str, float] = {}
        self._last_error_ms = 0.0
        self._samples: deque[tuple[float, dict[str, float]]] = deque()
        self._times: dict[str, tuple[float, float]] = {}

    def add(self, name: str, amount: float = 1) -> None:
        """Count."""
        self._counts[name] += amount
        self._sample()

    def set(self, name: str, value: float) -> None:
        """A value of the moment."""
        self._gauges[name] = value

    def took(self, name: str, ms: float) -> None:
        """A duration: `name`-avg-time-ms and `name`-max-time-ms."""
        average, longest = self._times.get(name, (ms, ms))
        self._times[name] = (average * 0.9 + ms * 0.1, max(longest, ms))

    def failed_record(self, now_ms: int) -> None:
        """A record was refused."""
        self._last_error_ms = now_ms
        self._counts["total-record-failures"] += 1
        self._counts["total-record-errors"] += 1

    def failed_operation(self, now_ms: int) -> None:
        """An operation failed that will be repeated."""
        self._last_error_ms = now_ms
        self._counts["total-record-failures"] += 1

    def total(self, name: str) -> float:
        """A count so far."""
        return self._counts[name]

    def _sample(self) -> None:
        now_ms = self._clock.monotonic_ms()
        if not self._samples or now_ms - self._samples[-1][0] >= _SAMPLE_MS:
            self._samples.append((now_ms, dict(self._counts)))
            while now_ms - self._samples[0][0] > _WINDOW_MS and len(self._samples) > 1:
                self._samples.popleft()

    def rate(self, name: str) -> float:
        """How much of a count a second, over the last half minute."""
        now_ms = self._clock.monotonic_ms()
        recent = [each for each in list(self._samples) if now_ms - each[0] <= _WINDOW_MS]
        if not recent:
            return 0.0
        began_ms, counts = recent[0]
        seconds = max(now_ms - began_ms, _SAMPLE_MS) / 1000
        return (self._counts[name] - counts.get(name, 0.0)) / seconds

    def values(self, is_sink: bool) -> Mapping[str, Mapping[str, float]]:
        """By the group of the metric: values by name."""
        names = SINK if is_sink else SOURCE
        flow: dict[str, float] = {name: self._counts[name] for name in names}
        flow |= {_RATES[name]: self.rate(name) for name in names if name in _RATES}
        task: dict[str, float] = {}
        for name, (average, longest) in list(self._times.items()):
            target = task if name == "offset-commit" else flow
            target[f"{name}-avg-time-ms"], target[f"{name}-max-time-ms"] = average, longest
        for name, value in list(self._gauges.items()):
            (task if name in ("pause-ratio", "running-ratio", "batch-size-avg") else flow)[name] = value
        errors = {name: self._counts[name] for name in ERRORS} | {"last-error-timestamp": self._last_error_ms}
        group = "sink-task-metrics" if is_sink else "source-task-metrics"
        return {"connector-task-metrics": task, group: flow, "task-error-metrics": errors}
