"""A command's connection to the cluster: client settings, a first connection attempt, and the clients.

librdkafka retries a refused connection silently until its timeout, a minute of nothing for the user. So each
bootstrap address is first tried with a plain TCP connection (microseconds where a broker runs); if none
accepts, the command fails at once. librdkafka's log lines are suppressed: the message from errors.py says the
same.
"""

from __future__ import annotations

import logging
import socket
from typing import Any

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from moldau.cli.shared.errors import CommandError, UsageError
from moldau.cli.shared.options import DEFAULT_TIMEOUT_SECONDS, parse_assignments

QUIET = logging.getLogger("moldau.cli.librdkafka")
QUIET.addHandler(logging.NullHandler())
QUIET.propagate = False

_CONNECT_TIMEOUT_SECONDS = 3.0


class Connection:
    """A cluster's address and client settings. The constructor raises CommandError if no broker answers."""

    def __init__(
        self,
        bootstrap: str,
        client_settings: list[str] | None = None,
        timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
    ) -> None:
        self.bootstrap = bootstrap
        self.timeout_seconds = timeout_seconds
        self.extra_settings = parse_assignments(client_settings, "-X")
        self.addresses = [parse_address(part) for part in bootstrap.split(",") if part.strip()]
        self._admin: AdminClient | None = None
        require_listener(self.addresses)

    def settings(self, **more: Any) -> dict[str, Any]:
        """Return librdkafka's settings: defaults, then `more` (underscores become dots), then the
        user's -X.
        """
        return {
            "bootstrap.servers": self.bootstrap,
            "client.id": "moldau-cli",
            "logger": QUIET,
            **{name.replace("_", "."): value for name, value in more.items()},
            **self.extra_settings,
        }

    def admin(self) -> AdminClient:
        """Return the admin client, one for the whole command: a result becomes invalid with its client."""
        if self._admin is None:
            self._admin = AdminClient(self.settings())
        return self._admin

    def producer(self, **more: Any) -> Producer:
        """Return a producer with the settings `more`, named with underscores for dots."""
        return Producer(self.settings(**more))

    def consumer(self, **more: Any) -> Consumer:
        """Return a consumer; without a `group_id` it gets a random one and commits nothing."""
        defaults = {
            "group_id": "moldau-cli",
            "enable_auto_commit": False,
            "enable_partition_eof": True,
            # After its queue was full, librdkafka would not fetch for a whole second, however fast it is
            # emptied.
            "fetch_queue_backoff_ms": 10,
        }
        return Consumer(self.settings(**{**defaults, **more}))


def parse_address(text: str) -> tuple[str, int]:
    """Split HOST:PORT, [IPv6]:PORT or HOST (port 9092)."""
    host, colon, port = text.strip().rpartition(":")
    if not colon or host.endswith(":"):
        return text.strip().strip("[]"), 9092
    if not (port.isascii() and port.isdigit()) or not 0 < int(port) < 65536:
        raise UsageError(f"{text!r} is not an address: write HOST:PORT, such as 127.0.0.1:9092")
    return host.strip("[]"), int(port)


def require_listener(addresses: list[tuple[str, int]]) -> None:
    """Return when one of the addresses accepts a connection; else raise CommandError with advice."""
    if not addresses:
        raise UsageError("the bootstrap address is empty: write HOST:PORT, such as 127.0.0.1:9092")
    reason = ""
    for host, port in addresses:
        try:
            socket.create_connection((host, port), timeout=_CONNECT_TIMEOUT_SECONDS).close()
            return
        except socket.gaierror:
            reason = f" ({host} is not a known host name)"
        except TimeoutError:
            reason = f" (nothing answered within {_CONNECT_TIMEOUT_SECONDS:.0f} s)"
        except OSError as refusal:
            reason = "" if isinstance(refusal, ConnectionRefusedError) else f" ({refusal.strerror})"
    named = ", ".join(f"{host}:{port}" for host, port in addresses)
    raise CommandError(
        f"no broker answers at {named}{reason}: start one with `moldau serve`, "
        "or name one with --bootstrap-server or MOLDAU_BOOTSTRAP"
    )
