"""The probe of transactions that hold back read_committed consumers for too long.

A consumer with `isolation.level=read_committed` that makes no progress looks broken; the cause is in the
broker. The conditions name the transaction, the partition and the command that ends it.
"""

from collections.abc import Callable, Iterable, Iterator

from moldau.broker.monitor.conditions import Condition, condition
from moldau.broker.monitor.health import Probe
from moldau.broker.monitor.open_transactions import HeldBack, OpenTransactionWatch
from moldau.broker.monitor.sources import TransactionSource, TransactionsSource

OVERDUE_MS_MAX = 30_000
"""How long after its timeout a transaction may still be there: its abort takes a moment."""

MARKERS_MS_MAX = 30_000
"""How long the markers of a decided transaction may be on their way."""

_NAMED_MAX = 3


def transactions(
    watch: OpenTransactionWatch,
    part: Callable[[], TransactionsSource | None],
    age_ms_max: Callable[[], int],
) -> Probe:
    """transaction-hanging, transaction-open-long, transaction-markers-late."""

    def probe() -> Iterable[Condition]:
        held = watch.look()
        yield from _hanging([each for each in held if each.hanging])
        yield from _open_long(held, age_ms_max())
        coordinator = part()
        if coordinator is not None:
            yield from _late_markers(coordinator)

    return probe


def _hanging(held: list[HeldBack]) -> Iterator[Condition]:
    for each in held[:_NAMED_MAX]:
        place = f"{each.topic}-{each.partition}"
        yield condition(
            "transaction-hanging",
            f"a transaction of producer {each.producer_id} holds back read_committed readers of {place} at "
            f"offset {each.first_offset} since {_seconds(each.age_ms)} (no coordinator knows it: it hangs); "
            f"free them with `moldau transactions abort --topic {each.topic} --partition {each.partition} "
            f"--start-offset {each.first_offset}`",
        )
    if len(held) > _NAMED_MAX:
        more = len(held) - _NAMED_MAX
        yield condition("transaction-hanging", f"the same in {more} more partitions")


def _open_long(held: list[HeldBack], age_ms_max: int) -> Iterator[Condition]:
    places: dict[str, list[str]] = {}
    owners: dict[str, tuple[TransactionSource, int]] = {}
    for each in held:
        owner = each.owner
        if owner is None or each.age_ms <= min(age_ms_max, owner.timeout_ms + OVERDUE_MS_MAX):
            continue
        places.setdefault(owner.transactional_id, []).append(f"{each.topic}-{each.partition}")
        owners[owner.transactional_id] = owner, each.age_ms
    for transactional_id, (owner, age_ms) in list(owners.items())[:_NAMED_MAX]:
        yield condition(
            "transaction-open-long",
            f"transaction {transactional_id!r} of producer {owner.producer_id} holds back read_committed "
            f"readers of {_some(places[transactional_id])} since {_seconds(age_ms)} (its timeout is "
            f"{_seconds(owner.timeout_ms)}); end it with `moldau transactions terminate {transactional_id}`",
        )
    if len(owners) > _NAMED_MAX:
        yield condition("transaction-open-long", f"so do {len(owners) - _NAMED_MAX} more transactions")


def _late_markers(coordinator: TransactionsSource) -> Iterator[Condition]:
    pending = coordinator.pending_markers()
    if pending.oldest_ms > MARKERS_MS_MAX or pending.stopped:
        stopped = f" ({pending.stopped} were told of another coordinator)" if pending.stopped else ""
        yield condition(
            "transaction-markers-late",
            f"{pending.transactions} decided transactions have no marker yet in {pending.partitions} "
            f"partitions, the oldest since {_seconds(pending.oldest_ms)}{stopped}",
        )


def _seconds(duration_ms: int) -> str:
    return f"{duration_ms / 1000:.0f} s"


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED_MAX} more" if len(names) > _NAMED_MAX else ""
    return ", ".join(names[:_NAMED_MAX]) + more
