"""`Broker`: a real broker for a test, started in a fraction of a second, with nothing left behind.

    with Broker(num_partitions=3) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})

By default it runs in a thread of the test's own process (in_thread.py), on an event loop of its own. With
`process=True` it is a child process (in_process.py) that can be killed (kill -9) and restarted on the same
data.

With `security=Security(folder)` (security.py) it has a listener for each way to log in, an authorizer and
users; `address` names a listener's port.

The data is in a temporary folder that is removed at the end, unless a folder is given. Ports are reserved
until `stop` (ports.py) and stay the same over `restart`, so that clients find this broker again and no other.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from moldau.testing.ports import ReservedPort, reserve_port

if TYPE_CHECKING:
    from moldau.testing.faults import Faults
    from moldau.testing.security import Security

DEFAULTS: Mapping[str, str] = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "3",
    "offsets.topic.replication.factor": "1",
    "share.coordinator.state.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
}
"""Where a test's broker differs from Kafka's defaults.

Groups form at once, and few internal partitions are made.
"""

START_TIMEOUT_SECONDS = 120.0
_LOOPBACK = "127.0.0.1"
SUPER_USER = "admin"


class Addresses(NamedTuple):
    """The addresses of a running broker: host:port for clients and for HTTP ("" without HTTP)."""

    bootstrap_servers: str
    http_address: str
    registry_url: str = ""
    """Of a schema registry in the same process."""


class Host(Protocol):
    """Runs the broker: a thread or a process."""

    @property
    def pid(self) -> int:
        """The id of the process that the broker runs in."""

    @property
    def running(self) -> bool:
        """Whether it was started, and neither stopped nor killed since."""

    def start(self, settings: Mapping[str, str]) -> Addresses:
        """Start a broker with these settings and return once it serves clients."""

    def stop(self) -> None:
        """Stop it as SIGTERM would; nothing if it is not running."""

    def kill(self) -> None:
        """Kill it without a shutdown."""

    def pause(self) -> None:
        """Let it stand still."""

    def resume(self) -> None:
        """Let it go on; nothing if it does not stand still."""


class Broker:
    """A broker for the length of the `with` block; start() and stop() do the same explicitly.

    Settings have Kafka's names, in `settings` or as keywords with underscores for dots. May be started again
    after `stop`. `log`: a file that the log of a broker in a process of its own is added to. `services`:
    what runs in that process beside it (`moldau serve --with`), on free ports: registry, rest.
    """

    def __init__(
        self,
        settings: Mapping[str, object] | None = None,
        *,
        process: bool = False,
        data: Path | str | None = None,
        log: Path | None = None,
        program: Sequence[str] = (),
        services: Sequence[str] = (),
        security: Security | None = None,
        **named_settings: object,
    ) -> None:
        self.security = security
        self.settings: dict[str, str] = dict(DEFAULTS)
        for name, value in {**(settings or {}), **dotted(named_settings)}.items():
            self.settings[name] = as_text(value)
        self.bootstrap_servers = ""
        self.http_address = ""
        self.registry_url = ""
        self._given_data = Path(data) if data is not None else None
        self._data: Path | None = None
        self._ports: tuple[ReservedPort, ReservedPort] | None = None  # for clients and for HTTP
        self._secured_ports: dict[str, ReservedPort] = {}  # by listener, of a secured broker
        self._host = self._make_host(process, log, program, services)

    @staticmethod
    def _make_host(process: bool, log: Path | None, program: Sequence[str], services: Sequence[str]) -> Host:
        if process:
            from moldau.testing.in_process import ProcessHost

            return ProcessHost(log, program, services)
        if services:
            raise ValueError("services run beside a broker in a process of its own: process=True")
        from moldau.testing.in_thread import ThreadHost

        return ThreadHost()

    @property
    def pid(self) -> int:
        """The id of the process that the broker runs in."""
        return self._host.pid

    @property
    def data(self) -> Path:
        """The folder with the broker's data."""
        if self._data is None:
            raise RuntimeError("the broker has not been started")
        return self._data

    def start(self) -> Broker:
        """Start the broker and return once it serves clients."""
        if self._data is None:
            self._data = self._given_data or Path(tempfile.mkdtemp(prefix="moldau-"))
        if self._ports is None:
            self._ports = reserve_port(), reserve_port()
        addresses = self._host.start(self._effective_settings(*self._ports))
        self.bootstrap_servers, self.http_address, self.registry_url = addresses
        return self

    def _effective_settings(self, clients: ReservedPort, http: ReservedPort) -> dict[str, str]:
        fixed = {
            "log.dirs": str(self.data),
            "listeners": f"PLAINTEXT://{_LOOPBACK}:{clients.number}",
            "moldau.http.listener": f"{_LOOPBACK}:{http.number}",
        }
        if self.security is not None:
            fixed |= self.security.settings(self._listener_ports(clients))
        return {**fixed, **self.settings}

    def _listener_ports(self, clients: ReservedPort) -> dict[str, int]:
        from moldau.testing.security import PROTOCOLS

        if not self._secured_ports:
            self._secured_ports = {name: reserve_port() for name in PROTOCOLS if name != "PLAINTEXT"}
        ports = {"PLAINTEXT": clients.number}
        return ports | {name: port.number for name, port in self._secured_ports.items()}

    def address(self, listener: str) -> str:
        """Where a listener of a secured broker is, as host:port."""
        if listener == "PLAINTEXT":
            return self.bootstrap_servers
        return f"{_LOOPBACK}:{self._secured_ports[listener].number}"

    def admin_settings(self) -> dict[str, Any]:
        """librdkafka's settings of a client that may do everything."""
        # librdkafka would log that the broker is gone when a test stops it; only what fails is worth a line.
        settings: dict[str, Any] = {"bootstrap.servers": self.bootstrap_servers, "log_level": 3}
        if self.security is not None:
            login = self.security.login("MUTUAL", SUPER_USER)
            settings |= {"bootstrap.servers": self.address("MUTUAL"), **login.librdkafka()}
        return settings

    def add_scram_users(self, *names: str) -> None:
        """Give users of `security` the SCRAM credentials of their passwords; all of them if none is named."""
        assert self.security is not None
        self.security.add_scram_users(self.admin_settings(), names)

    @property
    def running(self) -> bool:
        """Whether the broker was started, and neither stopped nor killed since."""
        return self._host.running

    def halt(self) -> None:
        """Stop the broker cleanly and keep its data and ports for `restart`."""
        self._host.stop()

    def stop(self) -> None:
        """Stop the broker cleanly and remove its temporary folder."""
        self._host.stop()
        self.bootstrap_servers = self.http_address = self.registry_url = ""
        for port in (*(self._ports or ()), *self._secured_ports.values()):
            port.release()
        self._ports, self._secured_ports = None, {}
        if self._data is not None and self._given_data is None:
            shutil.rmtree(self._data, ignore_errors=True)
        self._data = None

    def restart(self) -> None:
        """Stop the broker cleanly (unless it was killed) and start it again on the same data and ports."""
        self._host.stop()
        self.start()

    def kill(self) -> None:
        """Kill the broker's process as `kill -9` does; its data stays for `restart`. Needs process=True."""
        self._host.kill()

    @property
    def faults(self) -> Faults:
        """What shall go wrong (faults.py). RuntimeError: the broker is a process of its own."""
        found = getattr(self._host, "faults", None)
        if found is None:
            raise RuntimeError(
                "faults of requests and disks need a broker in this process: make it without process=True"
            )
        faults: Faults = found
        return faults

    @contextlib.contextmanager
    def stall(self) -> Iterator[None]:
        """Let the broker stand still until the block ends: it keeps its connections, and answers nothing."""
        self._host.pause()
        try:
            yield
        finally:
            self._host.resume()

    def create_topic(self, name: str, partitions: int = 1, **settings: object) -> None:
        """Create a topic and wait for it; settings are keywords with underscores for dots."""
        from confluent_kafka.admin import AdminClient, NewTopic

        admin = AdminClient(self.admin_settings())
        config = {key: as_text(value) for key, value in dotted(settings).items()}
        admin.create_topics([NewTopic(name, partitions, config=config)])[name].result(START_TIMEOUT_SECONDS)

    def __enter__(self) -> Broker:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Broker:
        return await asyncio.to_thread(self.start)

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.stop)


def dotted(settings: Mapping[str, object]) -> dict[str, object]:
    return {name.replace("_", "."): value for name, value in settings.items()}


def as_text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return str(value)
