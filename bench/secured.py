"""Both brokers with TLS, SASL and ACLs, started from the same settings (`moldau.testing.Security`).

    with secured(start(), Security(folder)) as broker:      start(): one of bench/brokers.py, not yet started
        Producer({"bootstrap.servers": broker.at("SSL"), **broker.security.login("SSL").librdkafka()})

A broker has the listeners that are named, on ports of their own. Apache Kafka has one more for its
controller, over TLS with certificates, because its authorizer asks there too who sends.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench import apache_kafka
from bench.brokers import ApacheKafka, BrokerProcess, Moldau, accepts
from moldau.testing.ports import reserve_port
from moldau.testing.security import PLAIN, PROTOCOLS, SCRAM_256, SCRAM_512, SUPER_USER, Security


class SecuredProcess(BrokerProcess):
    """A broker with a listener for each way to log in. `port` is that of the first listener."""

    security: Security
    listeners: Sequence[str]
    mechanisms: Sequence[str]
    authorizer: bool

    def secure(
        self,
        security: Security,
        listeners: Sequence[str] = tuple(PROTOCOLS),
        mechanisms: Sequence[str] = (PLAIN, SCRAM_256, SCRAM_512),
        *,
        authorizer: bool = True,
    ) -> None:
        """Called once, before the first start."""
        self.security, self.listeners, self.mechanisms = security, listeners, mechanisms
        self.authorizer = authorizer
        self._listener_ports = {name: reserve_port() for name in listeners}
        self.port = self.ports[listeners[0]]

    @property
    def ports(self) -> dict[str, int]:
        """Of each listener its port."""
        return {name: port.number for name, port in self._listener_ports.items()}

    def at(self, listener: str) -> str:
        """host:port of a listener."""
        return f"127.0.0.1:{self.ports[listener]}"

    def secured_settings(self) -> dict[str, str]:
        """What both brokers are given alike."""
        return self.security.settings(self.ports, mechanisms=self.mechanisms, authorizer=self.authorizer)

    def admin_settings(self) -> dict[str, Any]:
        """librdkafka's settings of a client that may do everything."""
        login = self.security.login("MUTUAL", SUPER_USER)
        return {"bootstrap.servers": self.at("MUTUAL"), "log_level": 3, **login.librdkafka()}


class SecuredMoldau(SecuredProcess, Moldau):
    """Moldau with its settings in a file, as passwords should be."""

    def command(self) -> list[str]:
        settings = {"log.dirs": str(self.log_dir()), **self.secured_settings(), **self.settings}
        path = write_settings(self.data_dir / "server.properties", settings)
        command = [super().command()[0], "-m", "moldau", "serve", "--config", str(path)]
        return [*command, "--http", "127.0.0.1:0"]

    def is_ready(self) -> bool:
        return "clients connect to" in self.said() and all(map(accepts, self.ports.values()))


class SecuredKafka(SecuredProcess, ApacheKafka):
    """Apache Kafka: one node, as in bench/brokers.py."""

    flags: Sequence[str] = ()

    def command(self) -> list[str]:
        settings = self.secured_settings()
        controller = f",CONTROLLER://127.0.0.1:{self.controller_port}"
        settings["listeners"] += controller
        settings["advertised.listeners"] += controller
        settings["listener.security.protocol.map"] += ",CONTROLLER:SSL"
        settings["listener.name.controller.ssl.client.auth"] = "required"
        properties = apache_kafka.write_properties(
            self.data_dir, self.port, self.controller_port, {**settings, **self.settings}
        )
        if not (self.log_dir() / "meta.properties").exists():
            apache_kafka.format_storage(properties)
        java, *rest = apache_kafka.server_command(properties)
        return [java, *self.flags, *rest]

    def is_ready(self) -> bool:
        return all(map(accepts, self.ports.values()))


def secured(plain: BrokerProcess, security: Security, *listeners: str, **more: Any) -> SecuredProcess:
    """A broker of the same kind, folder and settings, with the listeners named (or all)."""
    made: SecuredProcess
    kind = SecuredKafka if isinstance(plain, ApacheKafka) else SecuredMoldau
    made = kind(plain.data_dir, plain.settings)
    made._owns_data = plain._owns_data
    made.secure(security, listeners or tuple(PROTOCOLS), **more)
    return made


def write_settings(path: Path, settings: Mapping[str, str]) -> Path:
    """A file of settings that only this user can read."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
    lines = (f"{name}={value.replace(chr(92), chr(92) * 2)}\n" for name, value in settings.items())
    path.write_text("".join(lines))
    return path


@contextlib.contextmanager
def running(start: Callable[..., BrokerProcess], *listeners: str, **more: Any) -> Iterator[SecuredProcess]:
    """A secured broker with new certificates, started; nothing is left of it afterwards."""
    with (
        tempfile.TemporaryDirectory() as folder,
        secured(start(), Security(Path(folder)), *listeners, **more) as broker,
    ):
        assert isinstance(broker, SecuredProcess)
        yield broker


def gathered(parts: Mapping[str, Callable[[], Mapping[str, float]]]) -> dict[str, float]:
    """The values of all parts. One that fails is printed and left out; if all fail, so does this."""
    values: dict[str, float] = {}
    failures: list[Exception] = []
    for name, part in parts.items():
        try:
            values |= part()
        except Exception as error:
            print(f"  {name} failed: {type(error).__name__}: {error}", flush=True)
            failures.append(error)
    if not values:
        raise failures[0]
    return values
