"""Which listener brokers use among themselves."""

import pytest

from moldau.common.settings.listeners import inter_broker_listener
from moldau.common.settings.rows import SettingError
from moldau.common.settings.sources import from_texts

TWO = {
    "listeners": "INSIDE://127.0.0.1:9092,OUTSIDE://127.0.0.1:9093",
    "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
}


@pytest.mark.parametrize(
    ("told", "name"),
    [({}, None), ({"inter.broker.listener.name": "outside"}, "OUTSIDE")],
)
def test_the_listener_is_found(told: dict[str, str], name: str | None) -> None:
    assert inter_broker_listener(from_texts(TWO | told).broker) == name


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"inter.broker.listener.name": "BESIDE"}, "BESIDE, and the listeners are INSIDE, OUTSIDE"),
        ({"security.inter.broker.protocol": "SSL"}, "the listener of that name"),
        (
            {"inter.broker.listener.name": "INSIDE", "security.inter.broker.protocol": "PLAINTEXT"},
            "not both",
        ),
    ],
)
def test_what_cannot_be_used_is_said(told: dict[str, str], said: str) -> None:
    with pytest.raises(SettingError, match=said):
        inter_broker_listener(from_texts(TWO | told).broker)
