"""Addresses of listeners: advertised endpoints, text for messages, errors when one cannot be bound.

Not here: binding and serving them (listeners.py, monitoring_port.py).
"""

import errno
import logging
import socket
from collections.abc import Callable, Iterable
from typing import Protocol

from moldau.common.settings.broker import BrokerSettings
from moldau.common.settings.listeners import advertised_listeners

log = logging.getLogger("moldau.node")

_EVERY_INTERFACE = ("", "0.0.0.0", "::")


class AddressError(Exception):
    """An address cannot be bound; the message says why and what to do."""


class Named(Protocol):
    """A listener, as far as its address goes."""

    name: str
    host: str
    port: int


def shown(host: str) -> str:
    """The host as a client on this machine would address it."""
    if host in ("", "0.0.0.0"):
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host


def cannot_listen(host: str, port: int, error: OSError) -> AddressError:
    """The error for a client address that the system refuses."""
    return AddressError(f"cannot listen on {shown(host)}:{port}: {error.strerror or error}; {_remedy(error)}")


def _remedy(error: OSError) -> str:
    """What to do about an address that cannot be bound."""
    if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
        return "listen on an address of this machine: 127.0.0.1, or 0.0.0.0 for all of them"
    if error.errno in (errno.EACCES, errno.EPERM):
        return "choose a port from 1024 on, or allow the process to use lower ones"
    return "stop what uses the port (another broker?), or choose another one"


def endpoints(
    listeners: Iterable[Named], settings: BrokerSettings, name_of_machine: Callable[[], str]
) -> dict[str, tuple[str, int]]:
    """The endpoint that clients are told, by listener: advertised.listeners, else the bound address; for a
    listener on all interfaces the machine's name, with a warning in the log, since remote clients may not
    resolve it.
    """

    def reachable(host: str) -> str:
        return name_of_machine() if host in _EVERY_INTERFACE else host

    found: dict[str, tuple[str, int]] = {}
    for each in listeners:
        host = reachable(each.host)
        found[each.name] = (host, each.port)
        if host != each.host and not settings.advertised_listeners:
            log.warning(
                "clients of the listener %s, on every interface, are told to connect to %s:%d; "
                "if they cannot reach that, set advertised.listeners=%s://HOST:%d",
                each.name,
                host,
                each.port,
                each.name,
                each.port,
            )
    for told in advertised_listeners(settings) or ():
        found[told.name] = (reachable(told.host), told.port or found[told.name][1])
    return found
