"""What a judge says: one of the kinds below, and a sentence."""

from __future__ import annotations

from typing import NamedTuple

LOST = "lost write"
"""Acknowledged, and readers have gone past its offset without it."""
UNSEEN = "unseen"
"""Acknowledged, and no reading got as far as its offset."""
DUPLICATE = "duplicate"
INCONSISTENT = "inconsistent offset"
"""Two values at one offset, or an acknowledged offset that holds another value."""
ABORTED_READ = "aborted read"
"""A record of an aborted transaction, or one that was refused for good, was read as committed."""
TORN = "torn transaction"
POLL_SKIP = "poll skip"
POLL_BACK = "non-monotonic poll"
SEND_BACK = "non-monotonic send"
LOST_COMMIT = "lost commit"
"""A group stands elsewhere than at its last acknowledged commit or at one that may have come after it."""
DELETED_READ = "deleted read"
"""The final reading holds a record that DeleteRecords had deleted."""
INVENTED = "invented"
"""A record that nobody sent, or in another partition than it was sent to."""

KINDS = (
    LOST, UNSEEN, DUPLICATE, INCONSISTENT, ABORTED_READ, TORN, POLL_SKIP, POLL_BACK, SEND_BACK, LOST_COMMIT,
    DELETED_READ, INVENTED,
)  # fmt: skip


class Complaint(NamedTuple):
    """`kind` is one of KINDS."""

    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


def at(place: tuple[str, int], offset: int | None) -> str:
    """topic-partition@offset"""
    return f"{place[0]}-{place[1]}@{'?' if offset is None else offset}"
