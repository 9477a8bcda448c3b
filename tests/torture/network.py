"""Machines that are network namespaces, and a cluster on them as docs/cluster.md sets it up.

Each machine has a ZooKeeper server and a broker; clients are outside, on one more port of the switch
(network_switch.py). Needs root, `ip` and /dev/net/tun: `may_make_machines` says whether they are there.

    10.213.K.1    machine 1: ZooKeeper 2181, broker 9092
    10.213.K.2    machine 2
    10.213.K.3    machine 3
    10.213.K.254  the harness and its clients
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import TracebackType

from moldau.ensemble import Ensemble, Ports, ZooKeeperServer
from moldau.testing import Cluster
from torture import HERE
from torture.network_switch import TUN

OUTSIDE = 254
MTU = 9000
ZOOKEEPER_PORTS = Ports(2181, 2888, 3888)
BROKER_PORT, HTTP_PORT = 9092, 9640
WAIT_S = 60.0


class Network:
    """Namespaces `1..count` joined by a switch; as a context it ends them."""

    def __init__(self, count: int, seed: int) -> None:
        self.numbers = list(range(1, count + 1))
        self._prefix = _free_prefix()
        self._seed = seed
        self._switch: subprocess.Popen[str] | None = None

    def address(self, number: int) -> str:
        return f"{self._prefix}.{number}"

    def name(self, number: int) -> str:
        """The name of the machine's namespace, which processes outlive no round."""
        return f"torture-{self._prefix}.{number}"

    def inside(self, number: int) -> list[str]:
        """The words before a command line that runs on this machine."""
        return ["ip", "netns", "exec", self.name(number)]

    def rules(self, rules: Iterable[tuple[int, int, float, float, float]] = ()) -> int:
        """Replace all rules: source, target, loss, delay and jitter in seconds. Returns how many packets the
        rules before have lost or delayed.
        """
        assert self._switch is not None
        assert self._switch.stdin is not None
        assert self._switch.stdout is not None
        lines = [[self.address(source), self.address(target), *how] for source, target, *how in rules]
        self._switch.stdin.write(json.dumps(lines) + "\n")
        self._switch.stdin.flush()
        return int(self._switch.stdout.readline())

    def __enter__(self) -> Network:
        devices = {
            number: f"t{self._prefix.rsplit('.', 1)[1]}.{number}" for number in (*self.numbers, OUTSIDE)
        }
        plan = {
            "devices": {self.address(number): name for number, name in devices.items()},
            "seed": self._seed,
        }
        command = [sys.executable, "-m", "torture.network_switch", json.dumps(plan)]
        self._switch = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=HERE.parent
        )
        try:
            assert self._switch.stdout is not None
            if self._switch.stdout.readline() != "ready\n":
                raise RuntimeError("the switch did not start")
            for number in self.numbers:
                _ip("netns", "add", self.name(number))
                _ip("link", "set", devices[number], "netns", self.name(number))
                inside = ("-n", self.name(number))
                _ip(*inside, "link", "set", "lo", "up")
                self._configure(devices[number], number, inside)
            self._configure(devices[OUTSIDE], OUTSIDE, ())
        except BaseException:
            self.close()
            raise
        return self

    def _configure(self, device: str, number: int, inside: tuple[str, ...]) -> None:
        _ip(*inside, "addr", "add", f"{self.address(number)}/24", "dev", device)
        _ip(*inside, "link", "set", device, "up", "mtu", str(MTU))

    def close(self) -> None:
        """End the switch, and with it the devices; remove the namespaces."""
        for number in self.numbers:
            with suppress(subprocess.CalledProcessError):
                _ip("netns", "del", self.name(number))
        switch, self._switch = self._switch, None
        if switch is not None:
            switch.kill()
            switch.communicate()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class MachineServer(ZooKeeperServer):
    """A ZooKeeper server on a machine."""

    def __init__(self, folder: Path, network: Network, number: int) -> None:
        members = dict.fromkeys(network.numbers, ZOOKEEPER_PORTS)
        addresses = {
            f"server.{each}": f"{network.address(each)}:{ZOOKEEPER_PORTS.peer}:{ZOOKEEPER_PORTS.election}"
            for each in network.numbers
        }
        super().__init__(
            folder,
            ZOOKEEPER_PORTS,
            number=number,
            members=members,
            host=network.address(number),
            syncs=False,
            settings=addresses,
        )
        self._inside = network.inside(number)

    def prepare(self) -> list[str]:
        return [*self._inside, *super().prepare()]


class MachineEnsemble(Ensemble):
    """A ZooKeeper server on every machine."""

    def __init__(self, folder: Path, network: Network) -> None:
        self.servers: list[ZooKeeperServer] = [
            MachineServer(folder / f"zookeeper-{number}", network, number) for number in network.numbers
        ]


class MachineCluster(Cluster):
    """A broker and a ZooKeeper server on every machine."""

    def __init__(self, network: Network, settings: Mapping[str, object], data: Path) -> None:
        each = {
            number: {
                "listeners": f"PLAINTEXT://{network.address(number)}:{BROKER_PORT}",
                "moldau.http.listener": f"127.0.0.1:{HTTP_PORT}",
            }
            for number in network.numbers
        }
        programs = {
            number: [*network.inside(number), sys.executable, "-m", "moldau"] for number in network.numbers
        }
        super().__init__(len(network.numbers), settings, each=each, programs=programs, data=data)
        self._network = network

    @property
    def ensemble(self) -> Ensemble:
        if self._ensemble is None:
            self._ensemble = MachineEnsemble(self._folder(), self._network)
        return self._ensemble


@cache
def may_make_machines() -> str:
    """Why machines cannot be made here; "" if they can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if not Path(TUN).exists():
        return f"there is no {TUN}"
    try:
        with Network(1, 0):
            return ""
    except (OSError, RuntimeError, subprocess.CalledProcessError) as error:
        return f"network namespaces cannot be made: {error}"


def _ip(*words: str) -> str:
    return subprocess.run(["ip", *words], check=True, capture_output=True, text=True, timeout=WAIT_S).stdout


def _free_prefix() -> str:
    """The first three numbers of a network that nobody on this machine has."""
    there = _ip("-o", "addr") + _ip("netns", "list")
    for step in range(250):
        found = f"10.213.{(os.getpid() + step) % 250}"
        if f"{found}." not in there:
            return found
    raise RuntimeError("all networks 10.213.* are in use")
