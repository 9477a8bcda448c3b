"""Limits on connections that make new ones wait: how many there are, and how many begin in a second (KIP-402,
KIP-612).

    max.connections                   of the broker, and with a prefix of one listener
    max.connection.creation.rate      the same

While a limit is reached the listeners concerned accept nothing: clients wait in the queue of the system, as
in Kafka. The listener between brokers is exempt from the broker's limits (not from its own): where it is one
of several and the broker is full, the connection that has been idle the longest on another listener is closed
for each new one.

A rate lets as many begin at once as it allows in a second. Not here: limits by address, which refuse
(listener.py, security/quotas/).
"""

from collections.abc import Sequence
from typing import Protocol

from moldau.common.core.clock import Clock
from moldau.common.core.timers import TimerHandle, Timers
from moldau.common.settings.broker import BrokerSettings
from moldau.common.settings.prefixed import listener_settings, own_texts
from moldau.common.settings.rows import MAX_INT

_OF_COUNT, _OF_RATE = "count", "rate"


class HoldsConnections(Protocol):
    """The part of a listener that is used here."""

    name: str

    @property
    def connection_count(self) -> int:
        """How many connections it has."""

    def accept_nothing(self, reason: str) -> None:
        """Accept nothing until this reason, and all others, are over."""

    def accept_again(self, reason: str) -> None:
        """This reason is over."""

    def close_idlest(self) -> bool:
        """Close the connection that has been idle the longest; whether there was one."""


class _Rate:
    """A bucket of a second's connections."""

    def __init__(self, per_second: int, clock: Clock) -> None:
        self.per_second = per_second
        self._clock = clock
        self._left = float(per_second)
        self._at_ms = clock.monotonic_ms()

    def count(self) -> None:
        """A connection has begun."""
        self._left = self._now() - 1

    def wait_ms(self) -> float:
        """How long until the next may begin."""
        missing = 1 - self._now()
        if missing <= 0:
            return 0.0
        return missing * 1000 / self.per_second if self.per_second else 1000.0

    def _now(self) -> float:
        now_ms = self._clock.monotonic_ms()
        passed_ms, self._at_ms = now_ms - self._at_ms, now_ms
        self._left = min(float(self.per_second), self._left + passed_ms * self.per_second / 1000)
        return self._left


class _OfListener:
    def __init__(self, listener: HoldsConnections, *, is_exempt: bool) -> None:
        self.listener = listener
        self.is_exempt = is_exempt
        self.connections_max = MAX_INT
        self.rate: _Rate | None = None
        self.timer: TimerHandle | None = None


class AcceptLimits:
    """The limits of one broker's listeners."""

    def __init__(
        self, listeners: Sequence[HoldsConnections], inter_broker: str | None, clock: Clock, timers: Timers
    ) -> None:
        """`inter_broker`: the name of the listener between brokers."""
        exempt = inter_broker if len(listeners) > 1 else None
        self._all = {each.name: _OfListener(each, is_exempt=each.name == exempt) for each in listeners}
        self._clock = clock
        self._timers = timers
        self._connections_max = MAX_INT
        self._rate: _Rate | None = None
        self._active = False

    def set(self, settings: BrokerSettings) -> None:
        """These limits hold from now on."""
        self._connections_max = settings.max_connections
        self._rate = self._renewed(self._rate, settings.max_connection_creation_rate)
        for name, each in self._all.items():
            own, texts = listener_settings(settings, name), own_texts(settings, name)
            limited, slowed = "max.connections" in texts, "max.connection.creation.rate" in texts
            each.connections_max = own.max_connections if limited else MAX_INT
            each.rate = self._renewed(each.rate, own.max_connection_creation_rate if slowed else MAX_INT)
        was_active, self._active = (
            self._active,
            (
                self._connections_max < MAX_INT
                or self._rate is not None
                or any(each.connections_max < MAX_INT or each.rate is not None for each in self._all.values())
            ),
        )
        if self._active or was_active:
            for each in self._all.values():
                self._look_at_count(each)
                self._look_at_rate(each)

    def _renewed(self, rate: _Rate | None, per_second: int) -> _Rate | None:
        if per_second >= MAX_INT:
            return None
        if rate is not None and rate.per_second == per_second:
            return rate
        return _Rate(per_second, self._clock)

    @property
    def connection_count(self) -> int:
        """Connections of all listeners."""
        return sum(each.listener.connection_count for each in self._all.values())

    def admitted(self, name: str) -> None:
        """A listener has one connection more."""
        if not self._active:
            return
        this = self._all[name]
        for rate in (this.rate, None if this.is_exempt else self._rate):
            if rate is not None:
                rate.count()
        if this.is_exempt and self.connection_count > self._connections_max:
            self._make_room()
        for each in self._all.values():
            self._look_at_count(each)
            self._look_at_rate(each)

    def forgotten(self) -> None:
        """A listener has one connection less."""
        if self._active:
            for each in self._all.values():
                self._look_at_count(each)

    def is_over(self, name: str) -> bool:
        """Whether a connection that was accepted already is one too many: several are accepted at once."""
        if not self._active:
            return False
        this = self._all[name]
        full = not this.is_exempt and self.connection_count >= self._connections_max
        return full or this.listener.connection_count >= this.connections_max

    def _make_room(self) -> None:
        for each in self._all.values():
            if not each.is_exempt and each.listener.close_idlest():
                return

    def _look_at_count(self, each: _OfListener) -> None:
        if self.is_over(each.listener.name):
            each.listener.accept_nothing(_OF_COUNT)
        else:
            each.listener.accept_again(_OF_COUNT)

    def _look_at_rate(self, each: _OfListener) -> None:
        rates = (each.rate, None if each.is_exempt else self._rate)
        wait_ms = max((rate.wait_ms() for rate in rates if rate is not None), default=0.0)
        if each.timer is not None:
            each.timer.cancel()
            each.timer = None
        if not wait_ms:
            each.listener.accept_again(_OF_RATE)
            return
        each.listener.accept_nothing(_OF_RATE)
        each.timer = self._timers.call_later(wait_ms + 1, lambda: self._look_at_rate(each))

    def stop(self) -> None:
        """No more timers."""
        for each in self._all.values():
            if each.timer is not None:
                each.timer.cancel()
                each.timer = None
