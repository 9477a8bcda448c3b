"""Guards for the first batch of a transaction (KIP-890): a batch must not be appended when its transaction
has ended while the coordinator was asked.

A batch that would open a transaction waits until the coordinator says that the partition takes part in it.
Meanwhile a marker may come and end that very transaction; the batch, appended after it, would open one that
is never ended. So a guard is taken before the question, every marker breaks the producer's guard, and
a batch with a broken guard is refused.

    begin(7, epoch 0) ─── question ─────────────────── answer: yes ──> is_current? no: refused
                              marker of producer 7 ──┘ breaks the guard

A producer has one guard, shared by all its batches that wait. It lives until the marker, so that a failed
write leaves the batches behind the first as verified as they were. A guard also remembers the lowest sequence
number that was asked for in the latest epoch: while that batch is being tried again, none behind it may take
its place.

Guards are in memory only and bounded: the oldest are broken first, and the coordinator is asked again for a
batch refused for that. Not here: asking the coordinator (handlers/).
"""

GUARDS_MAX = 10_000


class Verification:
    """One producer's guard in one partition."""

    __slots__ = ("bumps_epoch", "lowest_sequence", "producer_epoch", "producer_id", "swept")

    def __init__(self, producer_id: int, producer_epoch: int) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.lowest_sequence = -1
        """The lowest base sequence asked for in this epoch, or -1 when unknown."""
        self.bumps_epoch = False
        """Every transaction has an epoch of its own (transaction version 2), and so begins at sequence 0."""
        self.swept = False

    def __repr__(self) -> str:
        return f"Verification(producer {self.producer_id}, epoch {self.producer_epoch})"


class Verifications:
    """The guards of one log."""

    __slots__ = ("_by_producer",)

    def __init__(self) -> None:
        self._by_producer: dict[int, Verification] = {}

    def __len__(self) -> int:
        return len(self._by_producer)

    def begin(
        self, producer_id: int, producer_epoch: int, base_sequence: int, bumps_epoch: bool
    ) -> Verification:
        """The producer's guard, made when there is none."""
        guard = self._by_producer.get(producer_id)
        if guard is None:
            guard = self._by_producer[producer_id] = Verification(producer_id, producer_epoch)
            if len(self._by_producer) > GUARDS_MAX:
                del self._by_producer[next(iter(self._by_producer))]
        if producer_epoch > guard.producer_epoch:
            # The higher epoch is not confirmed yet, so the guard also serves the earlier one.
            guard.producer_epoch, guard.lowest_sequence, guard.bumps_epoch = producer_epoch, -1, False
        if producer_epoch == guard.producer_epoch:
            if base_sequence >= 0 and not 0 <= guard.lowest_sequence <= base_sequence:
                guard.lowest_sequence = base_sequence
            guard.bumps_epoch = guard.bumps_epoch or bumps_epoch
        guard.swept = False
        return guard

    def is_current(self, guard: Verification, producer_id: int) -> bool:
        """Whether this is the producer's guard, and nothing has broken it."""
        return self._by_producer.get(producer_id) is guard

    def end(self, producer_id: int) -> None:
        """A marker has come: break the producer's guard."""
        self._by_producer.pop(producer_id, None)

    def clear(self) -> None:
        """Break all guards."""
        self._by_producer.clear()

    def sweep(self) -> None:
        """Break the guards that were not used since the last sweep."""
        for producer_id in [each for each, guard in self._by_producer.items() if guard.swept]:
            del self._by_producer[producer_id]
        for guard in self._by_producer.values():
            guard.swept = True
