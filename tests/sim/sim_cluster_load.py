"""Producers of a cluster that write down what they did and were told, for the checker (tests/histories).

    idempotent      acks=all, sequence numbers, retries
    transaction     records in one or several partitions, then commit or abort
    plain           acks=all, no sequence numbers, each batch once
    leader          acks=1, each batch once: promised nothing when the leader is lost
    resending       acks=all, no sequence numbers, sent again after a lost, late or passing answer: there at
                    least once when acknowledged, and at most as often as it was sent

A producer that cannot go on is made anew, under another name in the history: order and uniqueness are
promised to one identity only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from histories.history import ACKNOWLEDGED, UNKNOWN, History, Send, Transaction
from sim_cluster_producer import ClusterProducer
from sim_network import Endpoint
from sim_producer import Fatal, KeyValue, Sent
from sim_routes import ClusterClient
from sim_world import World
from torture.reading import Place

IDEMPOTENT, TRANSACTIONAL, PLAIN, LEADER = "idempotent", "transactional", "plain", "leader"
RESENDING = "resending"
_RECORDS_MAX = 4


class ClusterLoad:
    """One producer by name, through all its lives."""

    def __init__(
        self,
        world: World,
        name: str,
        brokers: Sequence[Endpoint],
        history: History,
        mode: str,
        places: Sequence[Place],
        attempts: int,
        *,
        timeout_ms: int = 60_000,
        topic_ids: Mapping[str, bytes] | None = None,
        transactional_id: str = "",
    ) -> None:
        """`places` may grow. `topic_ids`: see `ClusterClient`. `transactional_id`: where another load has it,
        each fences the other again and again.
        """
        self.complaints: list[str] = []
        """Errors that no producer may be told."""
        self.transactional_id = transactional_id or f"id-{name}"
        self._topic_ids = topic_ids
        self.name, self.mode, self.attempts = name, mode, attempts
        self.lives = 0
        self.made = 0
        self.notes: list[str] = []
        self._world, self._brokers, self._history = world, brokers, history
        self._places = places
        draw = world.draw(f"{name}/kind")
        self._transactions = draw.choice((1, 2)) if topic_ids is None else 2  # v1 knows topics by name only
        self._in_flight_max = draw.randint(1, 5)
        self._timeout_ms = timeout_ms
        self._pause_ms = draw.choice((0, 0, 1500, 4000))
        """Between attempts: some are at work as long as faults go on."""
        self._identity, self._number, self._transaction = "", 0, 0
        self._identities = 0
        self._done = False

    @property
    def over(self) -> bool:
        """Whether all attempts are made, or it was killed and not started again."""
        return self._done or not self.client.process.alive

    def start(self) -> None:
        """Begin, or go on after a kill."""
        self.lives += 1
        self.client = ClusterClient(
            self._world, f"{self.name}.{self.lives}", self._brokers, topic_ids=self._topic_ids
        )
        self.client.background(self._run())

    def kill(self) -> None:
        """kill -9."""
        self.client.kill()

    async def _run(self) -> None:
        producer = await self._new_producer()
        while self.made < self.attempts:
            self.made += 1
            try:
                await self._attempt(producer)
            except Fatal as error:
                self.notes.append(f"{self._identity}: {error}")
                if self.mode == IDEMPOTENT and "OUT_OF_ORDER" in str(error):
                    # It sends what was not acknowledged, in order, and what was acknowledged is not lost.
                    self.complaints.append(f"{self._identity}: {error}")
                await self.client.pause()
                producer = await self._new_producer()
            if self.client.random.random() < 0.5:
                await self.client.pause()
            if self._pause_ms:
                await self._world.sleep_ms(self._pause_ms * self.client.random.random())
        self._done = True

    async def _new_producer(self) -> ClusterProducer:
        while True:
            producer = ClusterProducer(
                self.client,
                transactional_id=self.transactional_id if self.mode == TRANSACTIONAL else "",
                idempotent=self.mode in (IDEMPOTENT, TRANSACTIONAL),
                transactions=self._transactions,
                timeout_ms=self._timeout_ms,
                acks=1 if self.mode == LEADER else -1,
                in_flight_max=self._in_flight_max,
                resends=self.mode == RESENDING,
            )
            try:
                await producer.initialise()
            except Fatal as error:
                self.notes.append(str(error))
                await self.client.pause()
            else:
                self._identities += 1
                self._identity = f"{self.name}.{self._identities}"
                self._number = self._transaction = 0
                return producer

    async def _attempt(self, producer: ClusterProducer) -> None:
        draw = self.client.random
        if self.mode != TRANSACTIONAL:
            await self._deliver(producer, draw.randint(1, 3), None)
            if self.mode == IDEMPOTENT and draw.random() < 0.3:
                await self._next_epoch(producer)
            return
        self._transaction += 1
        transaction = Transaction(self._identity, self._transaction)
        self._history.transactions.append(transaction)
        for _ in range(draw.randint(1, 2)):
            await self._deliver(producer, draw.randint(1, 3), transaction.number)
        if draw.random() < 0.15:  # perhaps for longer than its timeout: then another epoch goes on
            await self._world.sleep_ms(1.5 * min(self._timeout_ms, 4000))
        transaction.commit = draw.random() < 0.75
        await producer.end(commit=transaction.commit)
        transaction.outcome = ACKNOWLEDGED

    async def _next_epoch(self, producer: ClusterProducer) -> None:
        """Go on in another epoch; what was under way in the one before arrives later, and must be refused."""
        place = self.client.random.choice(self._places)
        late = producer.batch(place, [(None, b"of an epoch that is over")])
        producer.bump_epoch()
        await self._deliver(producer, 1, None, place)
        await producer.send_late(late)

    async def _deliver(
        self, producer: ClusterProducer, batches: int, transaction: int | None, place: Place | None = None
    ) -> None:
        pieces = [self._batch(producer, transaction, place) for _ in range(batches)]
        try:
            await producer.deliver([sent for sent, _ in pieces])
        finally:
            now = self._world.loop.time()
            for sent, records in pieces:
                for index, one in enumerate(records):
                    if self.mode == RESENDING:
                        one.appends_max = sent.tries
                    one.outcome = UNKNOWN if sent.base_offset is None else ACKNOWLEDGED
                    if sent.base_offset is not None:
                        one.offset = sent.base_offset + index if sent.base_offset >= 0 else None
                        one.ended_s = now

    def _batch(
        self, producer: ClusterProducer, transaction: int | None, place: Place | None
    ) -> tuple[Sent, list[Send]]:
        draw = self.client.random
        place = place or draw.choice(self._places)
        records = []
        for _ in range(draw.randint(1, _RECORDS_MAX)):
            self._number += 1
            one = Send(
                self._identity,
                self._number,
                place,
                f"{self._identity}/{self._number}",
                self._world.loop.time(),
                acks=1 if self.mode == LEADER else -1,
                ordered=self.mode in (IDEMPOTENT, TRANSACTIONAL),
                once=self.mode != RESENDING,
                transaction=transaction,
            )
            records.append(one)
        self._history.sends += records
        pairs: list[KeyValue] = [(None, one.value.encode()) for one in records]
        return producer.batch(place, pairs), records
