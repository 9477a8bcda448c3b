"""Which of the eight levels decides, with whom a quota is shared, and what happens when quotas change."""

import gc
import itertools
import random

import pytest

from moldau.broker.metadata.changes import ClientQuotasChanged, replay
from moldau.broker.metadata.image import EMPTY_IMAGE
from moldau.broker.security.quotas.limits import ClientQuotas
from moldau.broker.security.quotas.meters import METERS_MAX, NO_LIMIT
from moldau.broker.security.quotas.rate import Windows
from moldau.common.access.quota_entities import (
    FETCH,
    PRODUCE,
    AddressTable,
    LimitTable,
    address_of,
    ordered,
    user_of,
)


def entity(**parts):
    return ordered({name.replace("_", "-"): value for name, value in parts.items()})


LEVELS = [
    (entity(user="alice", client_id="app"), ("alice", "app")),
    (entity(user="alice", client_id=None), ("alice", "app")),
    (entity(user="alice"), ("alice", None)),
    (entity(user=None, client_id="app"), ("alice", "app")),
    (entity(user=None, client_id=None), ("alice", "app")),
    (entity(user=None), ("alice", None)),
    (entity(client_id="app"), (None, "app")),
    (entity(client_id=None), (None, "app")),
]


def test_the_first_of_the_levels_that_are_set_decides():
    for count in range(1, len(LEVELS) + 1):
        for chosen in itertools.combinations(range(len(LEVELS)), count):
            table = LimitTable({LEVELS[at][0]: {PRODUCE: 100.0 + at} for at in chosen}, PRODUCE)
            assert table.of_client("alice", "app") == (LEVELS[chosen[0]][1], 100.0 + chosen[0])


def test_each_kind_of_quota_is_looked_up_by_itself():
    quotas = {entity(user="alice"): {FETCH: 5.0}, entity(client_id="app"): {PRODUCE: 7.0}}
    assert LimitTable(quotas, PRODUCE).of_client("alice", "app") == ((None, "app"), 7.0)
    assert LimitTable(quotas, FETCH).of_client("alice", "app") == (("alice", None), 5.0)


def test_quotas_of_others_do_not_apply():
    quotas = {entity(user="bob"): {PRODUCE: 1.0}, entity(client_id="other"): {PRODUCE: 2.0}}
    assert LimitTable(quotas, PRODUCE).of_client("alice", "app") is None


def test_a_client_without_client_id_has_the_default_of_client_ids():
    table = LimitTable({entity(client_id=None): {PRODUCE: 3.0}}, PRODUCE)
    assert table.of_client("alice", "") == ((None, ""), 3.0)
    table = LimitTable({entity(user="alice", client_id=None): {PRODUCE: 4.0}}, PRODUCE)
    assert table.of_client("alice", "") == (("alice", ""), 4.0)


@pytest.mark.parametrize("name", ["CN=Alice Müller, O=a/b:c%20", "a:b", "<default>", "*", "名前"])
def test_names_are_taken_as_they_are(name):
    table = LimitTable({entity(user=name): {PRODUCE: 3.0}, entity(user=None): {PRODUCE: 9.0}}, PRODUCE)
    assert table.of_client(user_of(f"User:{name}"), "x") == ((name, None), 3.0)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("0:0:0:0:0:0:0:1", "::1"),
        ("FE80::1%eth0", "fe80::1"),
        ("2001:DB8:0::7", "2001:db8::7"),
    ],
)
def test_an_address_is_one_however_it_is_written(text, address):
    assert address_of(text) == address


def test_addresses_and_their_default():
    quotas = {entity(ip="0:0::1"): {"connection_creation_rate": 2.0}}
    assert AddressTable(quotas).of("::1") == 2.0
    assert AddressTable(quotas).of("10.0.0.1") is None
    quotas[entity(ip=None)] = {"connection_creation_rate": 5.0}
    assert AddressTable(quotas).of("10.0.0.1") == 5.0


class Clock:
    def __init__(self):
        self.now = 0.0

    def ms(self):
        return self.now

    def seconds(self):
        return self.now / 1000


@pytest.fixture
def clock():
    return Clock()


def make_quotas(clock):
    return ClientQuotas(clock.ms, clock.seconds, Windows(11, 1000), Windows(11, 1000))


@pytest.fixture
def quotas(clock):
    return make_quotas(clock)


def test_without_a_quota_nothing_is_active(quotas):
    assert not quotas.active
    quotas.set({entity(ip=None): {"connection_creation_rate": 5.0}})
    assert not quotas.active
    assert quotas.connections.active
    quotas.set({entity(user=None): {PRODUCE: 5.0}})
    assert quotas.active
    assert not quotas.connections.active


def test_connections_of_one_client_share_its_quota(quotas):
    quotas.set({entity(user="alice"): {PRODUCE: 1000.0}})
    one, other = quotas.limits_of("User:alice", "a"), quotas.limits_of("User:alice", "b")
    assert one.produced(9_000) == 0
    assert other.produced(9_000) > 0
    assert one.produced(1) > 0
    assert quotas.limits_of("User:bob", "a") is None


def test_a_default_is_nobodys_own(quotas):
    quotas.set({entity(client_id=None): {PRODUCE: 1000.0}})
    one, other = quotas.limits_of("User:alice", "a"), quotas.limits_of("User:alice", "b")
    assert one.produced(20_000) > 0
    assert other.produced(9_000) == 0


def test_a_quota_that_is_removed_delays_nobody_who_still_has_its_meter(quotas):
    quotas.set({entity(user="alice"): {PRODUCE: 10.0}})
    limits = quotas.limits_of("User:alice", "a")
    assert limits.produced(5_000) > 0
    quotas.set({})
    assert limits.produced(5_000) == 0
    assert limits.produce.current_limit() == NO_LIMIT
    quotas.set({entity(user=None): {PRODUCE: 1e9}})
    assert limits.produced(5_000) == 0
    quotas.set({entity(user=None): {PRODUCE: 10.0}})
    assert limits.produced(0) > 0


def test_reconnecting_does_not_forget_what_was_used(quotas, clock):
    quotas.set({entity(user="alice"): {PRODUCE: 1000.0}})
    assert quotas.limits_of("User:alice", "a").produced(50_000) > 0
    gc.collect()
    clock.now += 5_000
    assert quotas.limits_of("User:alice", "a").produced(0) > 0


def test_a_pause_before_does_not_help_either(quotas, clock):
    quotas.set({entity(client_id=None): {PRODUCE: 1000.0}})
    limits = quotas.limits_of("User:alice", "a")
    clock.now += 60_000
    for number in range(100):
        quotas.limits_of("User:alice", f"other-{number}")
    limits.produced(50_000)
    del limits
    gc.collect()
    for number in range(100):
        quotas.limits_of("User:alice", f"more-{number}")
    assert quotas.limits_of("User:alice", "a").produced(0) > 0


def test_ever_new_client_ids_fill_no_memory(quotas, clock):
    quotas.set({entity(client_id=None): {PRODUCE: 1000.0}})
    for number in range(METERS_MAX + 2_000):
        quotas.limits_of("User:alice", f"id-{number}")
    assert len(quotas.produces) <= METERS_MAX + 1
    clock.now += 60_000
    for number in range(METERS_MAX // 4 + 10):  # each that comes lets some of the old ones go
        quotas.limits_of("User:alice", f"later-{number}")
    clock.now += 60_000
    for number in range(20_000):
        quotas.limits_of("User:alice", f"last-{number}")
    assert len(quotas.produces.recent(METERS_MAX)) <= 21_000


def test_the_time_of_requests_is_charged_in_percent_of_one_loop(quotas, clock):
    quotas.set({entity(user="alice"): {"request_percentage": 1.0}})
    limits = quotas.limits_of("User:alice", "a")
    limits.begin()
    clock.now += 50
    assert limits.request_delay_ms() == 0  # 5 % in a second, of 10 that may come at once
    limits.end()
    limits.begin()
    clock.now += 120
    assert limits.request_delay_ms() == 1_000  # a sample at most, as in Kafka
    limits.end()
    assert limits.request.per_second() == pytest.approx(1.7, rel=0.02)


def test_a_fetch_may_have_what_ten_seconds_allow(quotas):
    quotas.set({entity(user="alice"): {FETCH: 1000.0}})
    limits = quotas.limits_of("User:alice", "a")
    assert limits.fetch_bytes_max() == 10_000
    assert limits.fetch_delay_ms(10_000) == (0, True)
    limits.fetched(10_000)
    delay_ms, gives = limits.fetch_delay_ms(100)
    assert delay_ms > 0
    assert not gives


def test_a_batch_beyond_all_that_the_quota_allows_is_given_once(quotas, clock):
    quotas.set({entity(user="alice"): {FETCH: 1000.0}})
    limits = quotas.limits_of("User:alice", "a")
    assert limits.fetch_delay_ms(100_000) == (90_000, True)
    limits.fetched(100_000)
    assert limits.fetch_delay_ms(100_000)[1] is False
    clock.now += 11_000
    assert limits.fetch_delay_ms(100_000) == (90_000, True)


def test_changes_lead_to_the_same_limits_as_all_quotas_at_once():
    """Random changes, one entry after the other, some missed, some told as a difference of images."""
    source = random.Random(7)
    keys = (PRODUCE, FETCH, "request_percentage", "controller_mutation_rate")
    entities = [each for each, *_ in LEVELS] + [entity(ip=None), entity(ip="10.0.0.1")]
    clock = Clock()
    followed, image = make_quotas(clock), EMPTY_IMAGE
    for version in range(1, 200):
        chosen = source.choice(entities)
        kinds = ("connection_creation_rate",) if chosen[0][0] == "ip" else keys
        value = None if source.random() < 0.4 else float(source.randrange(1, 1000))
        changes = (ClientQuotasChanged(chosen, {source.choice(kinds): value}),)
        old, image = image, replay(image, version, changes)
        if source.random() < 0.1:
            continue  # the subscriber has failed: it is told of the difference afterwards, or all anew
        followed.image_changed(image, old, changes)
        fresh = make_quotas(clock)
        fresh.set(image.quotas)
        assert followed.active == fresh.active
        assert followed.connections.active == fresh.connections.active
        for user in ("alice", "bob"):
            for client_id in ("app", "other", ""):
                ours, theirs = (each.limits_of(f"User:{user}", client_id) for each in (followed, fresh))
                assert (ours and ours.values) == (theirs and theirs.values), (version, user, client_id)
