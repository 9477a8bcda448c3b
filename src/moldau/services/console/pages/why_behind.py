"""Why a group is behind, from what a cluster tells of any group: states, owners, offsets and their course.

The order is that of a person who looks for it: does nobody read, does nobody own the partition, is what it
wants to read gone, does one partition hold all of it, does it read slower than is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from moldau.services.console.facts.snapshot import GroupFacts

_NAMED_MAX = 3
_MOST = 0.8
_LITTLE = 10


def why_behind(
    group: GroupFacts, rows: Sequence[Mapping[str, Any]], course: Sequence[tuple[int, float]]
) -> list[dict[str, str]]:
    """Sentences with what to do, the first cause first; `kind`: bad, warn, good or info."""
    lag = sum(row["lag"] or 0 for row in rows)
    behind = [row for row in rows if row["lag"]]
    if not rows:
        return [
            _said(
                "info",
                "The group has no offsets and no assigned partitions: there is nothing to be behind in.",
            )
        ]
    found = [*_lost(rows), *_nobody(group, behind)]
    if not lag:
        return found or [_said("good", "The group has read all that there is.")]
    if not found:
        found = [*_unowned(behind), *_one_partition(behind, lag)]
    return [*found, *_trend(course)] or [_said("info", f"The group is {lag:,} records behind.")]


def _said(kind: str, text: str, remedy: str = "") -> dict[str, str]:
    return {"kind": kind, "text": text, "remedy": remedy}


def _lost(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    lost = [row for row in rows if row["lost"]]
    if not lost:
        return []
    missed = sum(row["start"] - row["committed"] for row in lost)
    return [
        _said(
            "bad",
            f"In {_places(lost)} retention has deleted {missed:,} offsets that the group had not read.",
            "auto.offset.reset of its members decides where it goes on. A longer retention.ms, or faster "
            "members, "
            "keep this from happening again.",
        )
    ]


def _nobody(group: GroupFacts, behind: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    if group.members == 0 and behind:
        return [_said("warn", "Nobody reads: the group has no members.", "Start its consumers.")]
    if group.state in ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"):
        return [
            _said(
                "warn",
                f"The group is distributing its partitions anew ({group.state}); members that take part "
                "read less or "
                "nothing meanwhile.",
                "If this lasts, a member does not answer: see Members.",
            )
        ]
    return []


def _unowned(behind: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    unowned = [row for row in behind if not row["member_id"]]
    if not unowned:
        return []
    return [
        _said(
            "warn",
            f"No member has {_places(unowned)}.",
            "Its members do not subscribe to the topic any more, or read only some partitions by assign().",
        )
    ]


def _one_partition(behind: Sequence[Mapping[str, Any]], lag: int) -> list[dict[str, str]]:
    worst = max(behind, key=lambda row: row["lag"])
    if len(behind) < 2 or worst["lag"] < _MOST * lag or not worst["member_id"]:
        return []
    return [
        _said(
            "warn",
            f"{worst['topic']}-{worst['partition']} alone has {worst['lag']:,} of {lag:,}: "
            f"{worst['client_id']} on {worst['host']} stands at offset {worst['committed']}.",
            "Look at what this member does with the record there, or whether one key has most of the "
            "records.",
        )
    ]


def _trend(course: Sequence[tuple[int, float]]) -> list[dict[str, str]]:
    recent = list(course)[-12:]
    if len(recent) < 3 or recent[-1][0] <= recent[0][0]:
        return []
    seconds = (recent[-1][0] - recent[0][0]) / 1000
    step = (recent[-1][1] - recent[0][1]) / seconds
    if step > 0.5:
        return [
            _said(
                "warn",
                f"The lag grows by about {step:,.0f} records a second: more is written than read.",
                "More members (as many as there are partitions at most), or faster ones.",
            )
        ]
    if step < -0.5 and recent[-1][1] > _LITTLE:
        return [_said("good", f"It catches up: about {_span(recent[-1][1] / -step)} at this pace.")]
    return []


def _span(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"


def _places(rows: Sequence[Mapping[str, Any]]) -> str:
    named = ", ".join(f"{row['topic']}-{row['partition']}" for row in rows[:_NAMED_MAX])
    return named if len(rows) <= _NAMED_MAX else f"{named} and {len(rows) - _NAMED_MAX:,} more partitions"
