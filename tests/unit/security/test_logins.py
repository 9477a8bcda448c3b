"""Which mechanisms a listener offers by its settings, and what happens when settings change or are wrong."""

import random

import pytest
from login_world import plain

from moldau.broker.controller.config_rules import check_broker_configs
from moldau.broker.controller.decision import Refusal
from moldau.broker.metadata.image import EMPTY_IMAGE
from moldau.broker.security.login.logins import Logins
from moldau.broker.security.login.steps import Accepted, Denied
from moldau.common.core.clock import ManualClock
from moldau.common.settings.broker import BrokerSettings
from moldau.common.settings.rows import SettingError
from moldau.common.settings.sources import from_texts

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required {};"
ALICE = PLAIN.format('username="broker" password="b" user_alice="one" user_broker="b"')
BOB = PLAIN.format("user_bob=two")


def logins(settings: dict[str, str]) -> tuple[Logins, list[BrokerSettings]]:
    """Logins, and a list whose last element are the settings in effect."""
    held = [from_texts(settings).broker]
    return Logins(lambda: held[-1], lambda: EMPTY_IMAGE, ManualClock(), random.Random(1)), held


def logs_in(of: Logins, listener: str, name: str, password: str) -> bool:
    step = of.offered(listener)["PLAIN"].begin().step(plain(name, password))
    assert isinstance(step, Accepted | Denied)
    return isinstance(step, Accepted)


def test_each_listener_has_users_and_mechanisms_of_its_own() -> None:
    of, _ = logins(
        {
            "sasl.enabled.mechanisms": "PLAIN",
            "sasl.jaas.config": ALICE,
            "connections.max.reauth.ms": "9000",
            "listener.name.outside.sasl.enabled.mechanisms": "SCRAM-SHA-512,PLAIN,SCRAM-SHA-256",
            "listener.name.outside.plain.sasl.jaas.config": BOB,
            "listener.name.outside.plain.connections.max.reauth.ms": "5000",
        }
    )
    assert list(of.offered("INSIDE")) == ["PLAIN"]
    assert list(of.offered("OUTSIDE")) == ["SCRAM-SHA-512", "PLAIN", "SCRAM-SHA-256"]
    assert logs_in(of, "INSIDE", "alice", "one")
    assert logs_in(of, "INSIDE", "broker", "b")
    assert not logs_in(of, "INSIDE", "bob", "two")
    assert logs_in(of, "OUTSIDE", "bob", "two")
    assert not logs_in(of, "OUTSIDE", "alice", "one")
    assert of.offered("INSIDE")["PLAIN"].reauthentication_ms == 9000
    assert of.offered("OUTSIDE")["PLAIN"].reauthentication_ms == 5000
    assert of.offered("OUTSIDE")["SCRAM-SHA-256"].reauthentication_ms == 9000


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"sasl.enabled.mechanisms": "PLAIN"}, "offers PLAIN, and has no users for it"),
        ({"sasl.enabled.mechanisms": "DIGEST-MD5"}, "names DIGEST-MD5, which is not served"),
        (
            {
                "sasl.enabled.mechanisms": "PLAIN",
                "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required;",
            },
            "has no users for it",
        ),
        (
            {
                "sasl.enabled.mechanisms": "PLAIN",
                "listener.name.x.plain.sasl.jaas.config": 'ScramLoginModule required password="s3cret";',
            },
            "names ScramLoginModule, and PLAIN needs PlainLoginModule",
        ),
        (
            {
                "sasl.enabled.mechanisms": "PLAIN",
                "sasl.jaas.config": 'PlainLoginModule required user_a="s3cret',
            },
            "sasl.jaas.config cannot be read: line 1: a quote is not closed",
        ),
    ],
)
def test_what_is_wrong_is_said_at_the_start_and_no_secret_with_it(
    settings: dict[str, str], sentence: str
) -> None:
    of, _ = logins(settings)
    with pytest.raises(SettingError) as failure:
        of.offered("X")
    assert sentence in str(failure.value)
    assert "s3cret" not in str(failure.value)


def test_changed_settings_hold_for_later_logins_and_wrong_ones_change_nothing() -> None:
    of, held = logins({"sasl.enabled.mechanisms": "PLAIN", "sasl.jaas.config": ALICE})
    begun = of.offered("X")["PLAIN"].begin()
    held.append(held[0].replace(sasl_jaas_config=BOB))
    assert logs_in(of, "X", "bob", "two")
    assert not logs_in(of, "X", "alice", "one")
    assert isinstance(begun.step(plain("alice", "one")), Accepted)
    held.append(held[0].replace(sasl_jaas_config="nonsense"))
    assert logs_in(of, "X", "bob", "two")


def test_a_change_of_other_settings_makes_no_mechanism_anew() -> None:
    of, held = logins({"sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256", "sasl.jaas.config": ALICE})
    before = of.offered("X")
    held.append(held[0].replace(log_retention_ms=5, connections_max_reauth_ms=7000))
    after = of.offered("X")
    assert {name: offer.begin for name, offer in after.items()} == {
        name: offer.begin for name, offer in before.items()
    }
    assert after["PLAIN"].reauthentication_ms == 7000
    held.append(held[0].replace(sasl_jaas_config=BOB))
    assert of.offered("X")["SCRAM-SHA-256"].begin is before["SCRAM-SHA-256"].begin
    assert of.offered("X")["PLAIN"].begin != before["PLAIN"].begin


@pytest.mark.parametrize("name", ["sasl.jaas.config", "listener.name.x.plain.sasl.jaas.config"])
def test_an_entry_that_cannot_be_read_is_not_stored(name: str) -> None:
    check_broker_configs({name: BOB}, [name], for_all=False)
    with pytest.raises(Refusal) as refusal:
        check_broker_configs({name: 'PlainLoginModule required user_a="s3cret'}, [name], for_all=False)
    message = refusal.value.outcome.message or ""
    assert name in message
    assert "s3cret" not in message
