"""Results on disk (`bench/results.json`) and the table made of them for docs/benchmarks.md."""

from __future__ import annotations

import json
import os
import platform
import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.figures import Figure, Row, Section, Values

RESULTS = Path(__file__).parent / "results.json"
DOCUMENT = Path(__file__).parents[1] / "docs" / "benchmarks.md"
BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"
COLUMNS = {"moldau": "Moldau", "kafka": "Apache Kafka"}


def load() -> dict[str, Any]:
    """figure -> broker -> {"median": ..., "runs": [...], ...}."""
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else {}


def save(figure: Figure, kind: str, runs: Sequence[Values], version: str) -> None:
    """Keep the runs of one figure and broker, replacing older ones."""
    results = load()
    names = {name for run in runs for name in run}  # a figure may lack some where a tool is missing
    medians = {name: statistics.median(run[name] for run in runs if name in run) for name in sorted(names)}
    results.setdefault(figure.name, {})[kind] = {
        "median": {name: round(value, 4) for name, value in medians.items()},
        "runs": [{name: round(value, 4) for name, value in run.items()} for run in runs],
        "version": version,
        "measured": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}",
    }
    RESULTS.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")


def write_document(figures: Mapping[str, Figure], sections: Mapping[str, Section]) -> None:
    """Replace the part of docs/benchmarks.md between the two marks."""
    text = DOCUMENT.read_text()
    before, after = text[: text.index(BEGIN) + len(BEGIN)], text[text.index(END) :]
    DOCUMENT.write_text(before + "\n" + tables(figures, sections) + after)


def tables(figures: Mapping[str, Figure], sections: Mapping[str, Section]) -> str:
    """A table for each figure that has results, then one for each section."""
    results = load()
    parts = []
    for figure in figures.values():
        found = results.get(figure.name)
        if not found or figure.section:
            continue
        parts.append(f"\n### {figure.title}\n\n`python -m bench {figure.name}`\n")
        columns = {name: one.title for name, one in figure.subjects.items()} or COLUMNS
        parts.append(
            f"| | {' | '.join(columns.values())} | ratio | promised |\n|---|{'---:|' * (len(columns) + 2)}"
        )
        parts += [_line(row, found, columns) for row in figure.rows if _has(row, found)]
        circumstances = "; ".join(
            _circumstances(title, found[kind]) for kind, title in columns.items() if kind in found
        )
        parts.append((f"\n{figure.note}\n" if figure.note else "") + f"\n{circumstances}.")
    for section in sections.values():
        members = [figure for figure in figures.values() if figure.section == section.name]
        if any(figure.name in results for figure in members):
            parts.append(f"\n### {section.title}\n\n`python -m bench {section.name}`\n")
            parts.append(section.table(members, results))
    return "\n".join(parts)


def _circumstances(title: str, result: Mapping[str, Any]) -> str:
    """How often, of what, when, and how fast the machine was (`bench.proc.spin_ms`)."""
    count, spin_ms = len(result["runs"]), result["median"].get("spin_ms")
    times = "one run" if count == 1 else f"median of {count} runs"
    speed = f", spin loop {spin_ms:.0f} ms" if spin_ms else ""
    return f"{title} {result['version']}: {times}, {result['measured']}{speed}"


def _has(row: Row, found: Mapping[str, Any]) -> bool:
    return any(row.key in result["median"] for result in found.values())


def _line(row: Row, found: Mapping[str, Any], columns: Mapping[str, str]) -> str:
    values = [found[kind]["median"].get(row.key) if kind in found else None for kind in columns]
    ours, theirs = (*values, None)[:2]  # a figure may have one subject alone
    ratio = f"{ours / theirs:.2f}" if ours and theirs and row.unit else ""
    title = f"{row.title}, {row.unit}" if row.unit else row.title
    cells = [_number(value, row.digits) for value in values]
    return f"| {title} | {' | '.join(cells)} | {ratio} | {row.promise} |"


def _number(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:,.{digits}f}"
