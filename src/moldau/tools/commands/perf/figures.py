"""The results of load generators: sentences with a histogram, and JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from moldau.tools.commands.perf.latencies import PERCENTILES, Latencies

if TYPE_CHECKING:
    from moldau.tools.commands.perf.consuming import Read
    from moldau.tools.commands.perf.producing import Outcome, Sent

BAR_WIDTH = 40
MIB = 1024 * 1024


def produced(topic: str, outcome: Outcome) -> str:
    """What `moldau perf produce` prints."""
    shown = outcome.steady or outcome.total
    after = " after the warm-up" if outcome.steady else ""
    return (
        f"{shown.records:,} records to {topic}{after} in {shown.seconds:.2f} s: "
        f"{shown.records_per_second:,.0f} records/s, {shown.mib_per_second:.2f} MiB/s\n"
        f"latency {percentiles(shown.latencies)}\n{chart(shown.latencies)}"
    )


def consumed(topic: str, read: Read) -> str:
    """What `moldau perf consume` prints."""
    return (
        f"{read.records:,} records from {topic} in {read.seconds:.2f} s "
        f"({read.rebalance_seconds:.2f} s of it joining the group): "
        f"{read.records / read.fetch_seconds:,.0f} records/s, {read.mib / read.fetch_seconds:.2f} MiB/s"
    )


def percentiles(found: Latencies) -> str:
    """One line: mean, percentiles, maximum."""
    shares = "  ".join(f"p{share * 100:g} {found.percentile_ms(share):.2f}" for share in PERCENTILES)
    return f"mean {found.mean_ms:.2f} ms  {shares}  max {found.max_ms:.2f}"


def chart(found: Latencies) -> str:
    """A bar for each range of latencies."""
    rows = list(found.bars())
    most = max((count for _, _, count in rows), default=0)
    lines = []
    for lower_ms, upper_ms, count in rows:
        length = round(count / most * BAR_WIDTH) if most else 0
        bar = "#" * (length or (1 if count else 0))
        lines.append(f"{lower_ms:>10.2f} - {upper_ms:>10.2f} ms {count / found.count:>7.2%} {bar}".rstrip())
    return "\n".join(lines)


def latencies_json(found: Latencies) -> dict[str, Any]:
    """Latencies for programs, in milliseconds."""
    return {
        "mean": round(found.mean_ms, 4),
        **{f"p{share * 100:g}": found.percentile_ms(share) for share in PERCENTILES},
        "max": round(found.max_ms, 4),
        "histogram": [
            {"from": lower_ms, "to": upper_ms, "records": count} for lower_ms, upper_ms, count in found.bars()
        ],
    }


def sent_json(topic: str, outcome: Outcome) -> dict[str, Any]:
    """What `moldau perf produce --json` prints."""
    found = {
        "topic": topic,
        **_sent(outcome.total),
        "failed": outcome.failed,
        "failure": outcome.failure or None,
    }
    return found | ({"steady": _sent(outcome.steady)} if outcome.steady else {})


def _sent(sent: Sent) -> dict[str, Any]:
    return {
        "records": sent.records,
        "bytes": round(sent.bytes),
        "seconds": round(sent.seconds, 4),
        "records_per_second": round(sent.records_per_second, 1),
        "mib_per_second": round(sent.mib_per_second, 3),
        "latency_ms": latencies_json(sent.latencies),
    }


def read_json(topic: str, read: Read) -> dict[str, Any]:
    """What `moldau perf consume --json` prints."""
    return {
        "topic": topic,
        "records": read.records,
        "bytes": read.bytes,
        "seconds": round(read.seconds, 4),
        "rebalance_seconds": round(read.rebalance_seconds, 4),
        "records_per_second": round(read.records / read.fetch_seconds, 1),
        "mib_per_second": round(read.mib / read.fetch_seconds, 3),
    }
