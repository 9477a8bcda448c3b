"""The verdict over a history.

    pass      every promise was kept, and at least one fault was felt
    fail      a promise was broken; the complaints say which
    unknown   nothing was broken, but nothing was tried: no fault bit, or nothing was acknowledged

Ambiguous sends count as recovered or absent, never as lost. The time is that of sorting the history.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Literal

from histories.complaint import Complaint
from histories.history import History
from histories.index import Index
from histories.judge_groups import judge_groups
from histories.judge_polls import judge_polls
from histories.judge_transactions import judge_transactions
from histories.judge_trims import judge_trims
from histories.judge_writes import judge_writes

JUDGES = (judge_writes, judge_transactions, judge_polls, judge_groups, judge_trims)


@dataclass(slots=True)
class Verdict:
    """What came of it; as text for whoever reads a failure."""

    result: Literal["pass", "fail", "unknown"]
    complaints: list[Complaint]
    counts: Counter[str]

    @property
    def kinds(self) -> set[str]:
        """The kinds of the complaints."""
        return {one.kind for one in self.complaints}

    def __str__(self) -> str:
        numbers = ", ".join(f"{count} {name}" for name, count in sorted(self.counts.items()))
        return "\n".join([f"{self.result}: {numbers}", *map(str, self.complaints)])


def check(history: History) -> Verdict:
    """Judge a history whose faults are healed and whose final reading is there."""
    index, counts = Index(history), Counter[str]()
    complaints = [complaint for judge in JUDGES for complaint in judge(index, counts)]
    counts["faults"] = len(history.faults)
    counts["faults felt"] = sum(one.bit for one in history.faults)
    if complaints:
        return Verdict("fail", complaints, counts)
    tried = counts["acknowledged"] and counts["faults felt"]
    return Verdict("pass" if tried else "unknown", complaints, counts)
