"""One server of the cluster on this machine: its folder, its ports, its command line.

FOLDER/cluster.json          plan.py
FOLDER/broker-1/             server.properties, data/, broker.log, process.json
FOLDER/zookeeper-1/          zoo.cfg, data/, zookeeper.log, process.json
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from moldau.ensemble import Ports, ZooKeeperServer
from moldau.testing.cluster_settings import SESSION_TIMEOUT_MS, broker_settings
from moldau.tools.cluster import secured
from moldau.tools.cluster.plan import HOST, PEER_PORT_STEP, Plan
from moldau.tools.cluster.server_file import KEPT, write_settings
from moldau.tools.shared.output import note

TICK_MS = 500
assert 2 * TICK_MS <= SESSION_TIMEOUT_MS  # ZooKeeper grants no shorter session than two ticks


class Server(Protocol):
    """A broker or a ZooKeeper server."""

    @property
    def name(self) -> str:
        """How it is called to the user."""

    @property
    def folder(self) -> Path:
        """Its files."""

    @property
    def log(self) -> Path:
        """What it says."""

    @property
    def ports(self) -> Mapping[str, int]:
        """The ports that must be free, by the option that moves them."""

    @property
    def address(self) -> str:
        """host:port for its clients."""

    def prepare(self) -> list[str]:
        """Write its configuration; return its command line."""


class BrokerServer:
    """One broker of the plan."""

    def __init__(self, root: Path, plan: Plan, node_id: int) -> None:
        self.node_id = node_id
        self.name = f"broker {node_id}"
        self.folder = root / f"broker-{node_id}"
        self.log = self.folder / "broker.log"
        self.ports = {"--port": plan.port + node_id - 1, "--http-port": plan.http_port + node_id - 1}
        self._root, self._plan = root, plan

    @property
    def address(self) -> str:
        """host:port for clients."""
        return f"{HOST}:{self.ports['--port']}"

    @property
    def http(self) -> str:
        """host:port of health and metrics."""
        return f"{HOST}:{self.ports['--http-port']}"

    def prepare(self) -> list[str]:
        """Write server.properties; a setting of the user's wins over the cluster's."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if self._plan.secure:
            listening = secured.broker_settings(self._root, self.address)
        else:
            listening = {"listeners": f"PLAINTEXT://{self.address}"}
        settings = {
            **listening,
            "moldau.http.listener": self.http,
            "log.dirs": str(self.folder.absolute() / "data"),
            **broker_settings(self.node_id, self._plan.brokers, self._plan.connect, self._plan.settings),
        }
        file = self.folder / "server.properties"
        if lost := write_settings(file, settings):
            note(
                f"moldau: {self.name}: {file} was changed by hand and is written anew, without "
                f"{', '.join(lost)} (kept as {file.name}{KEPT}): give settings to `moldau cluster start` by "
                "--set NAME=VALUE"
            )
        return [sys.executable, "-m", "moldau", "serve", "--config", str(file)]


class EnsembleServer:
    """One ZooKeeper server of the plan."""

    def __init__(self, root: Path, plan: Plan, number: int) -> None:
        self.name = "ZooKeeper" if plan.zookeepers == 1 else f"ZooKeeper {number}"
        self.folder = root / f"zookeeper-{number}"
        members = {
            each: Ports(client, client + PEER_PORT_STEP, client + 2 * PEER_PORT_STEP)
            for each, client in ((each, plan.zookeeper_port + each - 1) for each in plan.zookeeper_ids)
        }
        self.zookeeper = ZooKeeperServer(
            self.folder,
            members[number],
            number=number,
            members=members if plan.zookeepers > 1 else {},
            tick_ms=TICK_MS,
        )
        self._root, self._plan = root, plan
        own = members[number]
        self.ports = {"--zookeeper-port": own.client}
        if plan.zookeepers > 1:
            self.ports |= {"--zookeeper-port (+100)": own.peer, "--zookeeper-port (+200)": own.election}

    @property
    def log(self) -> Path:
        """What it says."""
        return self.zookeeper.log_path

    @property
    def address(self) -> str:
        """host:port for clients."""
        return self.zookeeper.connect_string

    def prepare(self) -> list[str]:
        """Write zoo.cfg."""
        if self._plan.secure:
            self.zookeeper.login = secured.zookeeper_login(self._root)
        return self.zookeeper.prepare()


def broker_environment() -> dict[str, str]:
    """This environment without KAFKA_* variables: they are settings, the same for all brokers."""
    return {name: value for name, value in os.environ.items() if not name.startswith("KAFKA_")}


def port_in_use(server: Server) -> tuple[str, int] | None:
    """Return the first of the server's ports that another program has, with the option that moves it."""
    for option, port in server.ports.items():
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError:
                return option.split()[0], port
    return None
