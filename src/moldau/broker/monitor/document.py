"""Generates the tables of docs/monitoring.md: `python -m moldau.broker.monitor.document docs/monitoring.md`.

A test compares the file with this output, so every condition and metric is documented. The prose between the
tables is written by hand.
"""

import re
import sys
from collections.abc import Mapping
from pathlib import Path

from moldau.broker.monitor.conditions import CONDITIONS, Severity
from moldau.broker.monitor.metric_names import KAFKA_EXPORTER, MOLDAU, PROCESS, STRIMZI, Metric

_VERDICTS = {Severity.WARN: "degraded", Severity.FAIL: "failing"}


def tables() -> dict[str, str]:
    """Each table's name and text."""
    return {
        "conditions": _conditions(),
        "kafka_exporter": _metrics(KAFKA_EXPORTER),
        "strimzi": _metrics(STRIMZI),
        "moldau": _metrics(MOLDAU),
        "process": _metrics(PROCESS),
    }


def renewed(text: str) -> str:
    """The document with all tables replaced. ValueError if a table's markers are missing."""
    for name, table in tables().items():
        place = re.compile(rf"(<!-- table: {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        if not place.search(text):
            raise ValueError(f"the document has no place for the table {name!r}")
        text = place.sub(lambda found, table=table: f"{found[1]}{table}{found[2]}", text)  # type: ignore[misc]
    return text


def _conditions() -> str:
    lines = ["| condition | verdict | ready | cause | remedy |", "| --- | --- | --- | --- | --- |"]
    for name, kind in CONDITIONS.items():
        ready = "no" if kind.unready else "yes"
        lines.append(f"| `{name}` | {_VERDICTS[kind.severity]} | {ready} | {kind.meaning} | {kind.remedy} |")
    return "\n".join(lines) + "\n"


def _metrics(metrics: Mapping[str, Metric]) -> str:
    lines = ["| metric | type | meaning |", "| --- | --- | --- |"]
    lines += [f"| `{name}` | {metric.type} | {metric.help} |" for name, metric in metrics.items()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(renewed(path.read_text(encoding="utf-8")), encoding="utf-8")
