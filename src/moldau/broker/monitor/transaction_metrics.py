"""Metrics of transactions: the coordinator's, and open ones in the partitions led here."""

from collections.abc import Iterator

from moldau.broker.monitor.exposition import labels, samples, single
from moldau.broker.monitor.open_transactions import HeldBack
from moldau.broker.monitor.sources import TransactionsSource

ENDS = ("committed", "aborted", "fenced", "timed-out")
"""How a transaction ends; all four are shown from the beginning, so that rates begin at zero."""


def coordinated(source: TransactionsSource) -> Iterator[str]:
    """All of a coordinator's transactional ids."""
    counts = sorted(source.state_counts().items())
    yield samples("moldau_transactional_ids", [(labels(state=state), count) for state, count in counts])
    ended = source.ended
    yield samples("moldau_transactions_ended_total", [(labels(how=how), ended.get(how, 0)) for how in ENDS])
    pending = source.pending_markers()
    yield single("moldau_transaction_markers_pending", pending.partitions)
    yield single("moldau_transaction_markers_oldest_seconds", pending.oldest_ms / 1000)


def held_back(held: list[HeldBack]) -> str:
    """The partitions whose last stable offset is held back by an open transaction."""
    oldest_ms = max((each.age_ms for each in held), default=0)
    return "".join(
        [
            single("moldau_partitions_held_back", len(held)),
            single("moldau_partitions_held_back_hanging", sum(each.hanging for each in held)),
            single("moldau_partitions_held_back_oldest_seconds", oldest_ms / 1000),
        ]
    )
