"""One or three ZooKeeper servers on this machine that form an ensemble.

    ensemble = Ensemble(folder, count=3)
    ensemble.start()
    ensemble.connect_string                 # 127.0.0.1:2181,127.0.0.1:2182,127.0.0.1:2183
    ensemble.servers[0].kill()              # two of three go on serving
    ensemble.stop()

Each member has a folder of its own, `zookeeper-1` and so on. The ports stay the same while the object lives;
who starts an ensemble again in another process passes `ports`.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from moldau.ensemble.installation import EnsembleError
from moldau.ensemble.login import Login
from moldau.ensemble.server import START_TIMEOUT_SECONDS, Ports, ZooKeeperServer, free_ports

COUNTS = (1, 3, 5)


class Ensemble:
    """`count` servers with their data in `folder`. `ports`: three for each member (client, peer, election),
    free ones without it. The other arguments are those of `ZooKeeperServer`. EnsembleError: an even count,
    which tolerates no more failures than one member less.
    """

    def __init__(
        self,
        folder: Path | str,
        count: int = 1,
        *,
        ports: Sequence[Ports] | None = None,
        tick_ms: int = 500,
        heap_mib: int = 256,
        syncs: bool = True,
        settings: Mapping[str, str] | None = None,
        home: str | None = None,
        login: Login | None = None,
    ) -> None:
        if count not in COUNTS:
            raise EnsembleError(f"a ZooKeeper ensemble has 1, 3 or 5 members, not {count}")
        if ports is None:
            free = free_ports(3 * count)
            ports = [Ports(*free[3 * n : 3 * n + 3]) for n in range(count)]
        members = dict(enumerate(ports, start=1)) if count > 1 else {}
        self.servers = [
            ZooKeeperServer(
                Path(folder) / f"zookeeper-{number}",
                each,
                number=number,
                members=members,
                tick_ms=tick_ms,
                heap_mib=heap_mib,
                syncs=syncs,
                settings=settings,
                home=home,
                login=login,
            )
            for number, each in enumerate(ports, start=1)
        ]

    @property
    def connect_string(self) -> str:
        """What `zookeeper.connect` takes."""
        return ",".join(server.connect_string for server in self.servers)

    def start(self, timeout_seconds: float = START_TIMEOUT_SECONDS) -> None:
        """Start all members that do not run, and wait until they serve. EnsembleError: nothing runs then."""
        try:
            for server in self.servers:
                server.launch()
            for server in self.servers:
                server.wait(timeout_seconds)
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        """Stop all members, the leader last."""
        for server in sorted(self.servers, key=lambda each: each.mode() == "leader"):
            server.stop()

    def kill(self) -> None:
        """Kill all members (SIGKILL)."""
        for server in self.servers:
            server.kill()

    def leader(self) -> ZooKeeperServer | None:
        """The member that leads now, or the only one; None while there is none."""
        return next((each for each in self.servers if each.mode() in ("leader", "standalone")), None)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
