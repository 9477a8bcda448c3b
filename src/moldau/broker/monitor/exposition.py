"""Prometheus's text format, version 0.0.4, in pieces.

    # HELP kafka_brokers Brokers in the cluster.
    # TYPE kafka_brokers gauge
    kafka_brokers 3
    kafka_topic_partitions{topic="orders"} 12

Written with f-strings, because at 10,000 partitions a scrape has 140,000 lines: prometheus-client's objects
take twenty times as long for them (docs/decisions/metrics-text.md). Its parser checks the output in the
tests. A piece is at most a few hundred lines, so that the sender can yield to the event loop in between.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from moldau.broker.monitor.metric_names import METRICS

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_LINES_A_PIECE = 500
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})

T = TypeVar("T")
Value = int | float
Labels = str
"""Rendered labels: `{topic="a"}`, or empty."""


def labels(**pairs: object) -> Labels:
    """Render label pairs, escaped."""
    inside = ",".join([f'{name}="{str(value).translate(_ESCAPES)}"' for name, value in pairs.items()])
    return f"{{{inside}}}"


def head(name: str) -> str:
    """The two comment lines of a metric; KeyError when it is not in the table."""
    metric = METRICS[name]
    return f"# HELP {name} {metric.help}\n# TYPE {name} {metric.type}\n"


def single(name: str, value: Value) -> str:
    """A metric without labels."""
    return f"{head(name)}{name} {value}\n"


def samples(name: str, rows: Iterable[tuple[Labels, Value]]) -> str:
    """A metric with few samples."""
    return head(name) + "".join([f"{name}{label} {value}\n" for label, value in rows])


def of_each(name: str, rows: list[tuple[Labels, T]], value: Callable[[T], Value]) -> Iterator[str]:
    """A metric with a sample for each of many rows, in pieces; `value` is called when its piece is
    rendered.
    """
    yield head(name)
    for start in range(0, len(rows), _LINES_A_PIECE):
        piece = rows[start : start + _LINES_A_PIECE]
        yield "".join([f"{name}{label} {value(row)}\n" for label, row in piece])
