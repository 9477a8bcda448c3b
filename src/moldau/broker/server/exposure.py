"""Listeners that other machines reach without any security: said once at the start, and in /health.

PLAINTEXT://127.0.0.1:9092                     this machine only: no word
PLAINTEXT://:9092, no authorizer               anybody who reaches it may do all
SASL_PLAINTEXT://:9092                         passwords and records can be read on the way
"""

from collections.abc import Iterable
from typing import Protocol

_LOOPBACK = ("localhost", "::1")


class Exposed(Protocol):
    """A listener, as far as it is looked at here."""

    name: str
    host: str
    security_protocol: str


def exposures(listeners: Iterable[Exposed], *, has_authorizer: bool) -> list[str]:
    """A sentence for each listener that is open beyond this machine."""
    found = []
    for each in listeners:
        if each.host in _LOOPBACK or each.host.startswith("127."):
            continue
        if each.security_protocol == "PLAINTEXT" and not has_authorizer:
            found.append(
                f"the listener {each.name} takes connections of other machines without encryption, login or "
                "rights: whoever reaches it may read and change everything (it is secured by SASL_SSL and "
                "authorizer.class.name)"
            )
        elif each.security_protocol == "SASL_PLAINTEXT":
            found.append(
                f"the listener {each.name} takes connections of other machines without encryption: passwords "
                "(PLAIN) and records can be read on the way; use SASL_SSL"
            )
    return found
