"""What a cluster on this machine consists of: how many servers, which ports, which settings.

It is kept in `cluster.json` in the cluster's folder, so that every later command knows it, and `start`
without options starts the same cluster again.

    broker n      clients at port + n - 1, health and metrics at http_port + n - 1
    ZooKeeper n   clients at zookeeper_port + n - 1; in an ensemble of three, two more ports for each other
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from moldau.tools.shared.errors import CommandError, UsageError

FILE = "cluster.json"
HOST = "127.0.0.1"
ENSEMBLE_SIZES = (1, 3)
BROKERS_MAX = 50
PORT_MAX = 65_535
PEER_PORT_STEP = 100
"""An ensemble's servers talk to each other 100 and 200 ports above the ports of their clients."""


@dataclass(frozen=True, slots=True)
class Plan:
    """One cluster. `settings` are those that all brokers get beside the cluster's own; `secure`: with TLS,
    logins and ACLs (secured.py)."""

    brokers: int = 3
    zookeepers: int = 1
    port: int = 9092
    http_port: int = 9640
    zookeeper_port: int = 2181
    settings: Mapping[str, str] = field(default_factory=dict)
    secure: bool = False

    @property
    def bootstrap(self) -> str:
        """The addresses of all brokers, for clients."""
        return ",".join(f"{HOST}:{self.port + index}" for index in range(self.brokers))

    @property
    def connect(self) -> str:
        """The addresses of all ZooKeeper servers, for brokers."""
        return ",".join(f"{HOST}:{self.zookeeper_port + index}" for index in range(self.zookeepers))

    @property
    def broker_ids(self) -> range:
        """The brokers' ids."""
        return range(1, self.brokers + 1)

    @property
    def zookeeper_ids(self) -> range:
        """The ZooKeeper servers' numbers."""
        return range(1, self.zookeepers + 1)

    def changed(self, **wanted: Any) -> Plan:
        """Return this plan with what was asked for; None stands for "as it is". Settings are added."""
        given = {name: value for name, value in wanted.items() if value is not None}
        if "settings" in given:
            given["settings"] = {**self.settings, **given["settings"]}
        return replace(self, **given).checked()

    def checked(self) -> Plan:
        """Return the plan; UsageError if it cannot be."""
        if not 1 <= self.brokers <= BROKERS_MAX:
            raise UsageError(f"--brokers {self.brokers}: a cluster on one machine has 1 to {BROKERS_MAX}")
        if self.zookeepers not in ENSEMBLE_SIZES:
            raise UsageError(
                f"--zookeepers {self.zookeepers}: an ensemble has 1 server, or 3 of which any one may fail"
            )
        ranges = {
            "--port": (self.port, self.brokers),
            "--http-port": (self.http_port, self.brokers),
            "--zookeeper-port": (
                self.zookeeper_port,
                self.zookeepers + 2 * PEER_PORT_STEP * (self.zookeepers > 1),
            ),
        }
        for option, (first, count) in ranges.items():
            if first < 1 or first + count - 1 > PORT_MAX:
                raise UsageError(
                    f"{option} {first}: the ports {first} to {first + count - 1} are not all ports"
                )
        for (one, (first, count)), (other, (second, more)) in (
            (a, b) for a in ranges.items() for b in ranges.items() if a[0] < b[0]
        ):
            if first < second + more and second < first + count:
                raise UsageError(f"{one} {first} and {other} {second} overlap: choose one further away")
        return self


def load(folder: Path) -> Plan | None:
    """Return the plan of the cluster in this folder; None if there is none."""
    path = folder / FILE
    try:
        return Plan(**json.loads(path.read_text()))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as problem:
        raise CommandError(
            f"{path} cannot be read ({problem}): correct it, or delete {folder} and begin anew"
        ) from None


def save(folder: Path, plan: Plan) -> None:
    """Keep the plan."""
    temporary = folder / f"{FILE}.new"
    temporary.write_text(json.dumps(asdict(plan), indent=2) + "\n")
    temporary.replace(folder / FILE)
