"""What an HTTP service counts, as Prometheus reads it at /metrics.

Requests are counted by route (its pattern, so that paths cannot make endless series), method and status.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_BUCKETS_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


class Sample(NamedTuple):
    """One value of a metric; samples of one metric follow each other."""

    name: str
    help: str
    type: str
    value: float
    labels: tuple[tuple[str, str], ...] = ()


@dataclass(slots=True)
class RequestCounters:
    """Requests since the start."""

    running: int = 0
    by_answer: dict[tuple[str, str, int], int] = field(default_factory=dict)
    buckets: list[int] = field(default_factory=lambda: [0] * (len(_BUCKETS_SECONDS) + 1))
    seconds: float = 0.0

    def answered(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count one; status 0: the client went away before its response."""
        key = (route, method, status)
        self.by_answer[key] = self.by_answer.get(key, 0) + 1
        self.seconds += seconds
        for index, bound in enumerate(_BUCKETS_SECONDS):
            if seconds <= bound:
                self.buckets[index] += 1
                return
        self.buckets[-1] += 1

    def samples(self, prefix: str) -> Iterator[Sample]:
        """The metrics, their names begun with `prefix`."""
        yield Sample(f"{prefix}_requests_running", "Requests being answered.", "gauge", self.running)
        name = f"{prefix}_requests_total"
        for (route, method, status), count in sorted(self.by_answer.items()):
            labels = (("route", route), ("method", method), ("status", str(status)))
            yield Sample(name, "Requests answered.", "counter", count, labels)
        name, total = f"{prefix}_request_seconds", 0
        for bound, count in zip((*map(str, _BUCKETS_SECONDS), "+Inf"), self.buckets, strict=True):
            total += count
            yield Sample(f"{name}_bucket", "", "", total, (("le", bound),))
        yield Sample(f"{name}_sum", "", "", self.seconds)
        yield Sample(f"{name}_count", "", "", total)


def exposition(samples: Iterable[Sample]) -> bytes:
    """Prometheus's text format."""
    lines, last = [], ""
    for sample in samples:
        family = sample.name
        for suffix in ("_bucket", "_sum", "_count"):
            if not sample.type:
                family = family.removesuffix(suffix)
        if family != last:
            last = family
            help_text = sample.help or "Seconds from a request's head to the end of its response."
            lines.append(f"# HELP {family} {help_text}\n# TYPE {family} {sample.type or 'histogram'}\n")
        shown = ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in sample.labels)
        lines.append(
            f"{sample.name}{{{shown}}} {sample.value}\n" if shown else f"{sample.name} {sample.value}\n"
        )
    return "".join(lines).encode()
