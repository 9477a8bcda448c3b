"""Limits on connections that make new ones wait: their number and how fast they come."""

import pytest

from moldau.broker.server.accept_limits import AcceptLimits
from moldau.common.core.clock import ManualClock
from moldau.common.core.timers import ManualTimers
from moldau.common.settings.rows import SettingError
from moldau.common.settings.sources import from_texts


class FakeListener:
    def __init__(self, name: str) -> None:
        self.name = name
        self.connection_count = 0
        self.reasons: set[str] = set()
        self.idlest_closed = 0

    @property
    def accepts(self) -> bool:
        return not self.reasons

    def accept_nothing(self, reason: str) -> None:
        self.reasons.add(reason)

    def accept_again(self, reason: str) -> None:
        self.reasons.discard(reason)

    def close_idlest(self) -> bool:
        if not self.connection_count:
            return False
        self.idlest_closed += 1
        return True


class World:
    def __init__(self, **texts: str) -> None:
        self.clock = ManualClock()
        self.timers = ManualTimers(self.clock)
        self.outside, self.inside = FakeListener("OUTSIDE"), FakeListener("INSIDE")
        self.limits = AcceptLimits([self.outside, self.inside], "INSIDE", self.clock, self.timers)
        self.set(**texts)

    def set(self, **texts: str) -> None:
        names = {name.replace("_", "."): text for name, text in texts.items()}
        self.limits.set(from_texts(names).broker)

    def comes(self, listener: FakeListener) -> bool:
        if not listener.accepts or self.limits.is_over(listener.name):
            return False
        listener.connection_count += 1
        self.limits.admitted(listener.name)
        return True

    def goes(self, listener: FakeListener) -> None:
        listener.connection_count -= 1
        self.limits.forgotten()


def test_without_limits_nothing_is_looked_at() -> None:
    world = World()
    assert all(world.comes(world.outside) for _ in range(1000))
    assert world.outside.accepts


def test_a_full_broker_accepts_nothing_until_one_goes() -> None:
    world = World(max_connections="3")
    assert [world.comes(world.outside) for _ in range(4)] == [True, True, True, False]
    assert not world.outside.accepts
    world.goes(world.outside)
    assert world.outside.accepts
    assert world.comes(world.outside)


def test_brokers_are_let_in_to_a_full_broker_and_an_idle_client_goes() -> None:
    world = World(max_connections="2")
    assert world.comes(world.outside)
    assert world.comes(world.outside)
    assert world.comes(world.inside)
    assert world.outside.idlest_closed == 1
    assert world.inside.idlest_closed == 0
    assert world.inside.accepts


def test_a_listener_has_a_limit_of_its_own_also_between_brokers() -> None:
    world = World(listener_name_inside_max_connections="1", listener_name_outside_max_connections="2")
    assert [world.comes(world.inside) for _ in range(2)] == [True, False]
    assert [world.comes(world.outside) for _ in range(3)] == [True, True, False]
    world.set()
    assert world.inside.accepts
    assert world.outside.accepts


def test_several_that_were_accepted_at_once_are_not_one_too_many() -> None:
    world = World(max_connections="1")
    world.outside.connection_count = 1
    assert world.limits.is_over("OUTSIDE")
    assert not world.limits.is_over("INSIDE")


def test_a_rate_lets_a_seconds_connections_begin_then_one_at_a_time() -> None:
    world = World(max_connection_creation_rate="10")
    assert [world.comes(world.outside) for _ in range(11)] == [True] * 10 + [False]
    assert all(world.comes(world.inside) for _ in range(50)), "brokers are exempt"
    world.timers.advance(50)
    assert not world.outside.accepts
    world.timers.advance(60)
    assert world.comes(world.outside)
    assert not world.comes(world.outside)
    began = 0
    for _ in range(1000):
        world.timers.advance(10)
        began += world.comes(world.outside)
    assert 90 <= began <= 100


def test_a_rate_of_a_listener_and_changed_rates() -> None:
    world = World(listener_name_inside_max_connection_creation_rate="1")
    assert [world.comes(world.inside) for _ in range(2)] == [True, False]
    assert world.comes(world.outside)
    world.set()
    assert world.comes(world.inside)
    world.set(max_connection_creation_rate="0")
    assert not world.comes(world.outside)
    world.timers.advance(10_000)
    assert not world.outside.accepts
    world.limits.stop()


def test_exceptions_by_address_are_checked() -> None:
    settings = from_texts({"max.connections.per.ip.overrides": "10.0.0.7:5, [::1]:6"}).broker
    assert settings.max_connections_per_ip_overrides
    with pytest.raises(SettingError, match="is not address:count"):
        from_texts({"max.connections.per.ip.overrides": "10.0.0.7"})
