"""The limits of one client, and all that are set.

A connection's session holds its client's `ClientLimits`, found when the first request comes and again when
the user, the client id or a quota has changed (parts/session.py). While no quota is set for any client
(`ClientQuotas.active`), nobody looks them up.

Requests are charged in percent of the event loop's time (KIP-124: 100 is one thread, and there is one):

    began ──────── handler ──────────> answer: what it took so far counts for the delay
      └─────────────────────────────────────────────> ended: recorded

Time on a worker thread is added when it is known. What a request does in the name of all (the write at the
end of a turn) is nobody's.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from moldau.broker.metadata.changes import Change, ClientQuotasChanged
from moldau.broker.metadata.image import EMPTY_IMAGE, Image
from moldau.broker.security.quotas.connection_rates import ConnectionRates
from moldau.broker.security.quotas.meters import DELAY_MAX_MS, Meter, Meters
from moldau.broker.security.quotas.mutations import Mutations
from moldau.broker.security.quotas.rate import Windows
from moldau.common.access.quota_entities import (
    FETCH,
    IP,
    MUTATION,
    PRODUCE,
    REQUEST,
    LimitTable,
    Quotas,
    user_of,
)

T = TypeVar("T")

_PERCENT = 100.0


class ClientLimits:
    """The meters of one connection's client; None where it has no quota."""

    __slots__ = ("_all", "began_seconds", "fetch", "mutation", "owed_ms", "produce", "request", "values")

    def __init__(
        self,
        quotas: "ClientQuotas",
        produce: Meter | None = None,
        fetch: Meter | None = None,
        request: Meter | None = None,
        mutation: Meter | None = None,
    ) -> None:
        self._all = quotas
        self.produce = produce
        self.fetch = fetch
        self.request = request
        self.mutation = mutation
        self.values = [None if each is None else each.limit for each in (produce, fetch, request, mutation)]
        """The limits as they were when this was made."""
        self.began_seconds: float | None = None  # while one of its requests has the loop
        self.owed_ms = 0  # a delay that a handler found which cannot mute the connection itself

    def owe(self, delay_ms: int) -> None:
        """A handler that does not know the connection has found a delay."""
        self.owed_ms = max(self.owed_ms, delay_ms)

    def take_owed(self) -> int:
        """The delay that a handler found; the caller mutes the connection."""
        owed_ms, self.owed_ms = self.owed_ms, 0
        return owed_ms

    # The time of requests

    def begin(self) -> None:
        """A request of this client has the loop from now on."""
        self.began_seconds = self._all.seconds()

    def end(self) -> None:
        """It gives the loop back."""
        began_seconds, self.began_seconds = self.began_seconds, None
        if began_seconds is not None:
            self.used(self._all.seconds() - began_seconds)

    def drop(self) -> None:
        """It is no request of a client: its time is not charged."""
        self.began_seconds = None

    def timed(self, work: Callable[[], T]) -> Callable[[], tuple[float, T]]:
        """Work for a thread that also tells how many seconds it took, for `used`."""
        seconds = self._all.seconds

        def timed_work() -> tuple[float, T]:
            began_seconds = seconds()
            result = work()
            return seconds() - began_seconds, result

        return timed_work

    def used(self, seconds: float) -> None:
        """So much time was used, on the loop or in a thread."""
        if self.request is not None:
            self.request.record(seconds * _PERCENT)

    def request_delay_ms(self) -> int:
        """How long the client must wait for the time that its requests took, this one included."""
        meter = self.request
        if meter is None:
            return 0
        began_seconds = self.began_seconds
        so_far = 0.0 if began_seconds is None else (self._all.seconds() - began_seconds) * _PERCENT
        delay_ms = meter.delay_ms(so_far)
        if delay_ms:
            self._all.requests.throttled(meter, delay_ms)
        return delay_ms

    # Bytes

    def produced(self, size_bytes: int) -> int:
        """A Produce request of so many bytes has come: how long the client must wait, in milliseconds."""
        meter = self.produce
        if meter is None:
            return 0
        meter.record(size_bytes)
        delay_ms = meter.delay_ms()
        if delay_ms:
            self._all.produces.throttled(meter, delay_ms)
        return delay_ms

    def fetch_bytes_max(self) -> int | None:
        """The most bytes that one answer may have without a delay in any case; None: any number."""
        meter = self.fetch
        if meter is None:
            return None
        windows = self._all.fetches.windows
        limit = meter.current_limit() * max(1, windows.kept - 1) * windows.length_ms / 1_000
        return int(limit) if limit < DELAY_MAX_MS else None

    def fetch_delay_ms(self, size_bytes: int) -> tuple[int, bool]:
        """How long the client must wait if it is given so many bytes of records, and whether it gets them all
        the same.

        Usually it gets nothing, and asks again afterwards. But a batch may be larger than all that the quota
        allows in its time: who is within the quota gets such a batch and waits then, or it would wait for
        ever (as it does with Kafka).
        """
        bytes_delay_ms, gives = 0, True
        meter = self.fetch
        if meter is not None:
            bytes_delay_ms = meter.delay_ms(size_bytes)
            if bytes_delay_ms:
                self._all.fetches.throttled(meter, bytes_delay_ms)
                gives = size_bytes > (self.fetch_bytes_max() or 0) and not meter.delay_ms()
        request_delay_ms = self.request_delay_ms()
        return max(bytes_delay_ms, request_delay_ms), gives and not request_delay_ms

    def fetched(self, size_bytes: int) -> None:
        """An answer of so many bytes was given."""
        if self.fetch is not None:
            self.fetch.record(size_bytes)

    # Changes of metadata

    def mutations(self, *, strict: bool) -> Mutations | None:
        """For a request that changes metadata; `strict`: its version may be refused (KIP-599). None: it has
        no quota."""
        if self.mutation is None:
            return None
        return Mutations(self.mutation, self._all.mutations, strict=strict)


class ClientQuotas:
    """The quotas of this broker's clients."""

    def __init__(
        self,
        now_ms: Callable[[], float],
        seconds: Callable[[], float],
        windows: Windows,
        mutation_windows: Windows,
    ) -> None:
        """`now_ms`: of a clock that does not go back; `seconds`: of the clock that measures work."""
        self.seconds = seconds
        self.active = False
        """Whether any client has a quota."""
        self.produces = Meters(windows, now_ms)
        self.fetches = Meters(windows, now_ms)
        # As in Kafka, a client is not held for longer than a sample because of time.
        self.requests = Meters(windows, now_ms, delay_max_ms=windows.length_ms)
        self.mutations = Meters(mutation_windows, now_ms)
        self.connections = ConnectionRates(windows, now_ms)
        self._quotas: Quotas | None = None  # those that the tables hold

    def image_changed(self, new: Image, old: Image = EMPTY_IMAGE, changes: Sequence[Change] = ()) -> None:
        """The quotas are those of the new image from now on. `changes` lead there from the old one: where
        they are few, a hundred thousand other quotas are not looked at."""
        if self._quotas is not old.quotas:
            self.set(new.quotas)
            return
        entities = [each.entity for each in changes if isinstance(each, ClientQuotasChanged)]
        for meters in self.kinds().values():
            meters.table = meters.table.changed(new.quotas, entities)
        self._hold(new.quotas, addresses=any(entity[0][0] == IP for entity in entities))

    def set(self, quotas: Quotas) -> None:
        """These are all quotas."""
        self.produces.table = LimitTable(quotas, PRODUCE)
        self.fetches.table = LimitTable(quotas, FETCH)
        self.requests.table = LimitTable(quotas, REQUEST)
        self.mutations.table = LimitTable(quotas, MUTATION)
        self._hold(quotas, addresses=True)

    def _hold(self, quotas: Quotas, *, addresses: bool) -> None:
        self._quotas = quotas
        self.active = any(each.table for each in self.kinds().values())
        if addresses:
            self.connections.set(quotas)

    def kinds(self) -> dict[str, Meters]:
        """The meters by kind of quota."""
        return {"produce": self.produces, "fetch": self.fetches, "request": self.requests} | {
            "mutation": self.mutations
        }

    def limits_of(self, principal: str, client_id: str) -> ClientLimits | None:
        """The limits of a client, None: it has none. Its connection keeps them until one changes."""
        user = user_of(principal)
        produce = self.produces.of_client(user, client_id)
        fetch = self.fetches.of_client(user, client_id)
        request = self.requests.of_client(user, client_id)
        mutation = self.mutations.of_client(user, client_id)
        if produce is None and fetch is None and request is None and mutation is None:
            return None
        return ClientLimits(self, produce, fetch, request, mutation)
