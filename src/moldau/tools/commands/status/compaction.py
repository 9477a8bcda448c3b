"""The compaction part of `moldau status`: running, waiting, and the result of the last run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

_MEGABYTE = 1_000_000


def show_compaction(document: Mapping[str, Any] | None) -> None:
    """Print the compaction state of the health document, if it has one."""
    for line in compaction_lines(document or {}):
        print(line)


def compaction_lines(document: Mapping[str, Any]) -> list[str]:
    """The lines; none for a broker that has compacted nothing and has nothing to compact."""
    running: Sequence[Mapping[str, Any]] = document.get("running", ())
    backlog: Mapping[str, Any] = document.get("backlog") or {}
    last: Mapping[str, Any] | None = document.get("last")
    if not running and not backlog.get("partitions") and last is None:
        return []
    lines = ["compaction:"]
    for each in running:
        rate = each["bytes_per_second"]
        left_bytes = each["bytes_total"] - each["bytes_done"]
        left = f", {left_bytes / rate:,.0f} s left" if rate > 0 else ""
        lines.append(
            f"  {each['partition']}: {each['phase']}, {each['progress']:.0%} of "
            f"{each['bytes_total'] / _MEGABYTE:,.1f} MB, {rate / _MEGABYTE:,.1f} MB/s{left}"
        )
    if backlog.get("partitions"):
        lines.append(
            f"  waiting: {backlog['partitions']} partitions, {backlog['bytes'] / _MEGABYTE:,.1f} MB to read"
        )
    if last is not None:
        ended = datetime.fromtimestamp(last["at_ms"] / 1000, UTC)
        lines.append(
            f"  last: {last['partition']} at {ended:%Y-%m-%d %H:%M:%S} UTC, "
            f"{last['bytes_before'] / _MEGABYTE:,.1f} -> {last['bytes_after'] / _MEGABYTE:,.1f} MB, "
            f"{last['records_before']:,} -> {last['records_after']:,} records, {last['seconds']:.1f} s"
        )
    return lines
