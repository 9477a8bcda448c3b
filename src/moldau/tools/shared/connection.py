"""A command's connection to the cluster: client settings, a first connection attempt, and the clients.

librdkafka retries a refused connection silently until its timeout, a minute of nothing for the user. So each
bootstrap address is first tried with a plain TCP connection (microseconds where a broker runs); if none
accepts, the command fails at once. librdkafka's log lines are suppressed: the message from errors.py says the
same.

Settings bear Java's names or librdkafka's. With TLS or SASL the first attempt is a whole connection by our
own client, which tells why it fails (a certificate, a password, a mechanism); librdkafka would try again
until its timeout.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from moldau.tools.shared.errors import CommandError, UsageError
from moldau.tools.shared.options import DEFAULT_TIMEOUT_SECONDS, parse_assignments

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Producer

    from moldau.client.admin.layout import Layout
    from moldau.client.cluster import Cluster
    from moldau.client.connection import Connection as DirectConnection
    from moldau.client.options import ClientOptions
    from moldau.common.protocol.declare import Message

QUIET = logging.getLogger("moldau.cli.librdkafka")
QUIET.addHandler(logging.NullHandler())
QUIET.propagate = False

_CONNECT_TIMEOUT_SECONDS = 3.0
QUESTION_SECONDS, LOOK_UP_SECONDS = 3.0, 6.0
"""How long one question of a cause may take, and all of them together."""


class NoTimeLeft(CommandError):
    """The look-up of a cause has taken its time: nobody was asked."""


latest: Connection | None = None
"""The command's connection: app.py asks the cluster by it why the command failed."""


class Connection:
    """A cluster's address and client settings. The constructor raises CommandError if no broker answers."""

    def __init__(
        self,
        bootstrap: str,
        client_settings: list[str] | None = None,
        timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
    ) -> None:
        global latest
        self.bootstrap = bootstrap
        self.timeout_seconds = timeout_seconds
        given = parse_assignments(client_settings, "-X")
        self.given = given
        self.extra_settings = librdkafka_settings(given)
        self.addresses = [parse_address(part) for part in bootstrap.split(",") if part.strip()]
        self._cluster: Cluster | None = None
        self._options = client_options(given, timeout_seconds)
        self._direct: dict[tuple[str, int], DirectConnection] = {}
        self._ends_seconds: float | None = None
        self.causes: dict[bool, str] = {}
        """What was found out about failures (`causes.with_cause`), of coordinators and of others."""
        if not self.is_secured:
            require_listener(self.addresses)
        else:
            self._require_login()
        latest = self

    @property
    def is_secured(self) -> bool:
        """Whether TLS or SASL is used."""
        return self._options.security.secured

    def ask(self, address: tuple[str, int], request: Message, version: int) -> Any:
        """Ask one broker, once: to find a cause. CommandError after `question_seconds`, which is that of each
        step of a new connection.
        """
        from moldau.client.errors import ClientError

        try:
            connection = self._connected(address)
            return connection.ask(request, at_most=version, timeout_seconds=self.question_seconds)
        except (ClientError, OSError) as problem:
            raise CommandError(str(problem)) from None

    @contextmanager
    def limited(self) -> Iterator[None]:
        """A look-up of a cause, or a part of one: brokers that hang must not make it long."""
        outer = self._ends_seconds
        if outer is None:
            self._ends_seconds = time.monotonic() + LOOK_UP_SECONDS
        try:
            yield
        finally:
            self._ends_seconds = outer

    @property
    def question_seconds(self) -> float:
        """How long a question may take now. NoTimeLeft at the end of a look-up."""
        if self._ends_seconds is None:
            return self.timeout_seconds
        left_seconds = self._ends_seconds - time.monotonic()
        if left_seconds <= 0:
            raise NoTimeLeft(f"the cause was not found within {LOOK_UP_SECONDS:g} s")
        return min(self.timeout_seconds, QUESTION_SECONDS, left_seconds)

    def _connected(self, address: tuple[str, int]) -> DirectConnection:
        """A connection by our own client. CommandError says why there is none."""
        from moldau.client.connection import Connection as DirectConnection
        from moldau.client.connection import ConnectionLost
        from moldau.client.errors import ClientError, OptionError

        held = self._direct.get(address)
        if held is None or not held.is_open:
            seconds = self.question_seconds
            options = replace(
                self._options,
                request_timeout_seconds=min(seconds, self._options.request_timeout_seconds),
                connect_timeout_seconds=min(seconds, self._options.connect_timeout_seconds),
            )
            try:
                held = self._direct[address] = DirectConnection(*address, options)
            except OptionError as problem:
                raise UsageError(str(problem)) from None
            except (ClientError, ConnectionLost) as problem:
                named = f"{address[0]}:{address[1]}"
                raise CommandError(f"{problem}; `moldau doctor -b {named}` looks closer") from None
        return held

    def _require_login(self) -> None:
        """Return when one of the addresses takes a connection with these settings."""
        failures: list[CommandError] = []
        for address in self.addresses:
            try:
                self._connected(address)
                return
            except UsageError:
                return  # librdkafka has more mechanisms
            except CommandError as problem:
                failures.append(problem)
        # Only now: a broker logs a client that connects and says nothing as a failed TLS handshake.
        require_listener(self.addresses)
        raise failures[0]

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

    def cluster(self) -> Cluster:
        """Return the cluster that client/admin/ asks, one for the whole command."""
        from moldau.client.cluster import Cluster

        if self._cluster is None:
            if self.given:
                from confluent_kafka.admin import AdminClient

                AdminClient(
                    self.settings()
                )  # it knows the names of all settings: KafkaException for any other
            options = replace(self._options, api_timeout_seconds=self.timeout_seconds)
            self._cluster = Cluster(servers_text(self.addresses), options)
        return self._cluster

    def layout(self) -> Layout:
        """Read the brokers and partitions of the cluster."""
        from moldau.client.admin.layout import layout

        return layout(self.cluster())

    def producer(self, **more: Any) -> Producer:
        """Return a producer with the settings `more`, named with underscores for dots."""
        from confluent_kafka import Producer

        return Producer(self.settings(**more))

    def consumer(self, **more: Any) -> Consumer:
        """Return a consumer; without a `group_id` it gets a random one and commits nothing."""
        from confluent_kafka import Consumer

        defaults = {
            "group_id": "moldau-cli",
            "enable_auto_commit": False,
            "enable_partition_eof": True,
            # After its queue was full, librdkafka would not fetch for a whole second, however fast it is
            # emptied.
            "fetch_queue_backoff_ms": 10,
        }
        return Consumer(self.settings(**{**defaults, **more}))


def librdkafka_settings(given: dict[str, str]) -> dict[str, str]:
    """Client settings under librdkafka's names. UsageError for what it cannot use."""
    if not any(name.startswith(("security.", "ssl.", "sasl.")) for name in given):
        return given
    from moldau.common.credentials.client.librdkafka import for_librdkafka
    from moldau.common.credentials.errors import CredentialsError
    from moldau.common.credentials.login_file import with_client_login

    try:
        return for_librdkafka(with_client_login(given, os.environ))
    except CredentialsError as problem:
        raise UsageError(str(problem)) from None


def client_options(given: dict[str, str], timeout_seconds: float) -> ClientOptions:
    """The settings of our own client: those of security only. UsageError."""
    from moldau.client.options import ClientOptions
    from moldau.common.credentials.client.options import client_security, is_supported
    from moldau.common.credentials.errors import CredentialsError
    from moldau.common.credentials.login_file import with_client_login

    theirs = {name: value for name, value in given.items() if is_supported(name)}
    try:
        security = client_security(with_client_login(theirs, os.environ))
    except CredentialsError as problem:
        raise UsageError(str(problem)) from None
    return ClientOptions(
        client_id="moldau-cli",
        security=security,
        request_timeout_seconds=timeout_seconds,
        connect_timeout_seconds=_CONNECT_TIMEOUT_SECONDS,
    )


def cluster_of(bootstrap: str, settings: Mapping[str, str], timeout_seconds: float) -> Cluster:
    """The cluster for what is not a command of its own; `timeout_seconds` bounds an operation.
    UsageError for settings of security that cannot be used.
    """
    from moldau.client.cluster import Cluster

    options = client_options(dict(settings), timeout_seconds)
    return Cluster(
        servers_text([parse_address(each) for each in bootstrap.split(",") if each.strip()]),
        replace(options, api_timeout_seconds=timeout_seconds),
    )


def servers_text(addresses: Iterable[tuple[str, int]]) -> str:
    """Addresses as bootstrap.servers has them."""
    return ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in addresses)


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
