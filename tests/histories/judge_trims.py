"""Is what was deleted gone for good?

DeleteRecords is answered when every live replica has moved its log start: no later leader goes back behind
it. Judged is the final reading, which begins where the log does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from histories.complaint import DELETED_READ, Complaint, at
from histories.history import ACKNOWLEDGED
from histories.index import Index


def judge_trims(index: Index, counts: Counter[str]) -> Iterator[Complaint]:
    """Every acknowledged deletion against the final reading."""
    for trim in index.history.trims:
        counts["deletions"] += 1
        if trim.outcome != ACKNOWLEDGED:
            continue
        for offset, value in index.history.final.get(trim.place, ()):
            if offset < trim.offset:
                text = f"{at(trim.place, offset)} holds {value}, all below {trim.offset} was deleted"
                yield Complaint(DELETED_READ, text)
                break
