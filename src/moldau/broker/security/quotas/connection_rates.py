"""How many connections an address may make a second (KIP-612).

A connection too many is accepted, because the system has done so before the broker hears of it, and is then
neither served nor read from until the delay is over; then it is closed. A client that tries again at once
gains nothing, and those who are served are not held up. The connection does not count, so that an address
that keeps trying gets in at its rate.

Addresses that come and go fill no memory: one is forgotten when its rate is zero again.
"""

from collections import OrderedDict
from collections.abc import Callable

from moldau.broker.security.quotas.rate import Rate, Windows
from moldau.common.access.quota_entities import AddressTable, Quotas, address_of

_ADDRESSES_MAX = 50_000
_LOOKED_AT = 4


class ConnectionRates:
    """The rates of new connections, by address."""

    def __init__(self, windows: Windows, now_ms: Callable[[], float]) -> None:
        self._windows = windows
        self._now_ms = now_ms
        self._table = AddressTable({})
        self._rates: OrderedDict[str, Rate] = OrderedDict()
        self.active = False
        """Whether there is a rate for any address."""
        self.throttled_count = 0
        self.throttled_ms = 0

    def set(self, quotas: Quotas) -> None:
        """These are all quotas."""
        self._table = AddressTable(quotas)
        self.active = bool(self._table)
        if not self.active:
            self._rates.clear()

    def delay_ms(self, host: str) -> int:
        """A connection has come from this address: 0 if it may be served, else for how long it is kept before
        it is closed."""
        try:
            address = address_of(host)
        except ValueError:
            return 0  # no address: a socket of the file system, or a simulated machine
        limit = self._table.of(address)
        if limit is None:
            return 0
        now_ms = self._now_ms()
        rate = self._rates.get(address)
        if rate is None:
            self._forget(now_ms)
            rate = self._rates[address] = Rate(self._windows)
        else:
            self._rates.move_to_end(address)
        delay_ms = min(rate.delay_ms(limit, now_ms, added=1.0), self._windows.length_ms)
        if delay_ms:
            self.throttled_count += 1
            self.throttled_ms += delay_ms
            return delay_ms
        rate.record(1.0, now_ms)
        return 0

    def _forget(self, now_ms: float) -> None:
        rates = self._rates
        for _ in range(min(_LOOKED_AT, len(rates))):
            address, rate = next(iter(rates.items()))
            if rate.is_empty(now_ms) or len(rates) >= _ADDRESSES_MAX:
                del rates[address]
            else:
                rates.move_to_end(address)
