"""Which listeners are said to be open beyond this machine."""

from typing import NamedTuple

import pytest

from moldau.broker.server.exposure import exposures


class Listening(NamedTuple):
    name: str
    host: str
    security_protocol: str


@pytest.mark.parametrize(
    ("host", "protocol", "has_authorizer", "said"),
    [
        ("127.0.0.1", "PLAINTEXT", False, False),
        ("127.8.0.1", "PLAINTEXT", False, False),
        ("::1", "PLAINTEXT", False, False),
        ("localhost", "SASL_PLAINTEXT", True, False),
        ("", "PLAINTEXT", False, True),
        ("0.0.0.0", "PLAINTEXT", False, True),
        ("10.0.0.7", "PLAINTEXT", True, False),
        ("10.0.0.7", "SASL_PLAINTEXT", True, True),
        ("10.0.0.7", "SSL", False, False),
        ("", "SASL_SSL", False, False),
    ],
)
def test_a_listener_beyond_loopback_without_security_is_named(
    host: str, protocol: str, has_authorizer: bool, said: bool
) -> None:
    found = exposures([Listening("OUTSIDE", host, protocol)], has_authorizer=has_authorizer)
    assert bool(found) == said
    assert all("OUTSIDE" in each for each in found)
