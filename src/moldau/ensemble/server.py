"""One ZooKeeper server as a child process.

    with ZooKeeperServer(folder, Ports(2181)) as server:
        server.connect_string                  # 127.0.0.1:2181
        server.kill(); server.start()          # kill -9, and again on the same data

    folder/ zoo.cfg       written at each start
            data/         ZooKeeper's log and snapshots, and myid in an ensemble
            jaas.conf     with a login: the user (login.py)
            zookeeper.log what the server says

`start` returns when the server serves. In an ensemble no member serves before most of them run: `launch` all,
then `wait` for all (ensemble.py does).

Blocking code for commands and tests; nothing of it runs on a broker's event loop.
"""

import contextlib
import random
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from moldau.ensemble import login as logins
from moldau.ensemble.installation import EnsembleError, installation
from moldau.ensemble.login import Login

START_TIMEOUT_SECONDS = 120.0
STOP_TIMEOUT_SECONDS = 15.0
LOG_TAIL_BYTES = 2_000
LOOPBACK = "127.0.0.1"
SERVING = ("leader", "follower", "standalone", "observer")
MAIN_CLASS = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
JAVA_OPTIONS = (
    "-XX:TieredStopAtLevel=1",  # quick to start, small; a laptop's ensemble does hundreds of writes a second
    "-XX:+UseSerialGC",
    "-Xshare:auto",
    "-XX:+ExitOnOutOfMemoryError",
    "-Dlog4j2.simplelogShowdatetime=true",
    "-Dlog4j2.simplelogLevel=WARN",
    "-Dlog4j2.loggerContextFactory=org.apache.logging.log4j.simple.SimpleLoggerContextFactory",
    "-Dlog4j2.StatusLogger.level=OFF",
    "-Dzookeeper.preAllocSize=1024",  # KiB that its log grows by; 64 MiB by default
    # A member that joins takes the leader's whole state. The alternative, the changes that it lacks, is cut
    # from a list in the leader's memory that may have a gap (3.9.5, after the leader itself has taken a whole
    # state): the member refuses it ("is not the next proposal"), and two of three never serve.
    "-Dzookeeper.forceSnapshotSync=true",
    # When a machine is lost without a word: votes are repeated every 2 s at the latest (60 by default); an
    # attempt to connect, which holds up others, takes at most 2 s (5); and a follower that is quicker than
    # its new leader tries it five times in 2.5 s (0.5), else both wait for two `initLimit`.
    "-Dzookeeper.fastleader.maxNotificationInterval=2000",
    "-Dzookeeper.cnxTimeout=2000",
    "-Dzookeeper.leaderConnectDelayDuringRetryMs=500",
)


class Ports(NamedTuple):
    """A server's ports: for clients; and in an ensemble for the other members and for elections."""

    client: int
    peer: int = 0
    election: int = 0


def free_ports(count: int) -> list[int]:
    """Different ports that are free now, outside the range from which systems assign ports to connections."""
    found: list[int] = []
    while len(found) < count:
        port = random.SystemRandom().randrange(20_000, 32_000)
        if port not in found and _is_free(port):
            found.append(port)
    return found


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


class ZooKeeperServer:
    """One server, with its data in `folder`. Not started yet.

    `ports`: an int is the client port. `members`: of its ensemble, by number; `number`: its own.
    `tick_ms`: ZooKeeper's unit of time; sessions last from 2 to `session_ticks_max` ticks. `heap_mib`: Java's
    largest heap. `syncs`: whether a write is on the disk before it is acknowledged; only tests go without.
    `settings`: more lines for zoo.cfg, which win over those written here. `home`: an installed ZooKeeper.
    `login`: what clients and members must log in as; its files are then readable by the owner only.
    """

    def __init__(
        self,
        folder: Path | str,
        ports: Ports | int,
        *,
        number: int = 1,
        members: Mapping[int, Ports] | None = None,
        host: str = LOOPBACK,
        tick_ms: int = 500,
        session_ticks_max: int = 120,
        heap_mib: int = 256,
        syncs: bool = True,
        settings: Mapping[str, str] | None = None,
        java_options: Sequence[str] = (),
        home: str | None = None,
        login: Login | None = None,
    ) -> None:
        self.folder = Path(folder).absolute()
        self.ports = Ports(ports) if isinstance(ports, int) else ports
        self.number = number
        self.members = dict(members or {})
        self.host = host
        self.tick_ms = tick_ms
        self.session_ticks_max = session_ticks_max
        self.heap_mib = heap_mib
        self.syncs = syncs
        self.settings = dict(settings or {})
        self._java_options = tuple(java_options)
        self._home = home
        self.login = login
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def connect_string(self) -> str:
        """host:port for clients."""
        return f"{self.host}:{self.ports.client}"

    @property
    def log_path(self) -> Path:
        """The file with what the server says."""
        return self.folder / "zookeeper.log"

    @property
    def pid(self) -> int | None:
        """The process's id while it was started and not stopped; None otherwise."""
        return None if self._child is None else self._child.pid

    def is_running(self) -> bool:
        """Whether the process is there."""
        return self._child is not None and self._child.poll() is None

    # Starting and stopping

    def start(self, timeout_seconds: float = START_TIMEOUT_SECONDS) -> None:
        """Start and wait until it serves. EnsembleError: it does not; nothing runs then."""
        self.launch()
        self.wait(timeout_seconds)

    def launch(self) -> None:
        """Start the process, without waiting; nothing if it runs."""
        if self.is_running():
            return
        command = self.prepare()
        if not _is_free(self.ports.client):
            raise EnsembleError(f"port {self.ports.client} is in use: another ZooKeeper may run on it")
        with self.log_path.open("ab") as log:
            # In a process group of its own: a terminal's Ctrl-C stops what was started in order.
            self._child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder, process_group=0
            )

    def prepare(self) -> list[str]:
        """Write the files that the server needs, and return its command line, for who starts it himself."""
        found = installation(self._home)
        (self.folder / "data").mkdir(parents=True, exist_ok=True)
        secured: tuple[str, ...] = ()
        if self.login is not None:
            self.folder.chmod(0o700)
            secured = logins.java_options(logins.write_users(self.folder, self.login))
        if self.members:
            (self.folder / "data" / "myid").write_text(f"{self.number}\n")
        configuration = self.folder / "zoo.cfg"
        configuration.write_text(self.configuration())
        return [
            str(found.java),
            f"-Xmx{self.heap_mib}m",
            *JAVA_OPTIONS,
            *(() if self.syncs else ("-Dzookeeper.forceSync=no",)),
            *secured,
            *self._java_options,
            "-cp",
            found.class_path,
            MAIN_CLASS,
            str(configuration),
        ]

    def wait(self, timeout_seconds: float = START_TIMEOUT_SECONDS) -> None:
        """Return once it serves. EnsembleError: it ended, or did not in time and is killed now."""
        deadline = time.monotonic() + timeout_seconds
        while not self.serves():
            if not self.is_running():
                code = None if self._child is None else self._child.returncode
                self._child = None
                raise EnsembleError(f"ZooKeeper ended with exit code {code} instead of serving{self._tail()}")
            if time.monotonic() > deadline:
                self.kill()
                raise EnsembleError(f"ZooKeeper did not serve within {timeout_seconds:.0f} s{self._tail()}")
            time.sleep(0.02)

    def stop(self) -> None:
        """Stop it (SIGTERM), and kill it if it does not end; nothing if it is not running."""
        child = self._child
        if child is None:
            return
        child.terminate()
        try:
            child.wait(STOP_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        self._child = None

    def kill(self) -> None:
        """Kill it (SIGKILL) and wait for its end."""
        child, self._child = self._child, None
        if child is not None:
            child.kill()
            child.wait()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # Asking

    def ask(self, word: str, timeout_seconds: float = 2.0) -> str:
        """The answer to one of ZooKeeper's four-letter words; OSError if it does not answer."""
        with socket.create_connection((self.host, self.ports.client), timeout_seconds) as connection:
            connection.settimeout(timeout_seconds)
            connection.sendall(word.encode())
            answer = b""
            while piece := connection.recv(65_536):
                answer += piece
        return answer.decode(errors="replace")

    def mode(self) -> str | None:
        """`leader`, `follower` or `standalone` while it serves; None otherwise."""
        with contextlib.suppress(OSError):
            for line in self.ask("srvr").splitlines():
                if line.startswith("Mode: "):
                    return line.removeprefix("Mode: ").strip()
        return None

    def serves(self) -> bool:
        """Whether clients are served now."""
        return self.is_running() and self.mode() in SERVING

    # Files

    def configuration(self) -> str:
        """The text of zoo.cfg."""
        lines = {
            "dataDir": str(self.folder / "data"),
            "clientPort": str(self.ports.client),
            "clientPortAddress": self.host,
            "tickTime": str(self.tick_ms),
            "initLimit": "20",
            "syncLimit": "10",
            "minSessionTimeout": str(2 * self.tick_ms),
            "maxSessionTimeout": str(self.session_ticks_max * self.tick_ms),
            "maxClientCnxns": "0",
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "*",
            "autopurge.snapRetainCount": "3",
            "autopurge.purgeInterval": "1",
        }
        if len(self.members) > 1:
            for number, ports in sorted(self.members.items()):
                lines[f"server.{number}"] = f"{self.host}:{ports.peer}:{ports.election}"
        if self.login is not None:
            lines.update(logins.settings(is_member=len(self.members) > 1))
        lines.update(self.settings)
        return "".join(f"{name}={value}\n" for name, value in lines.items())

    def _tail(self) -> str:
        try:
            content = self.log_path.read_bytes()[-LOG_TAIL_BYTES:]
        except OSError:
            return ""
        text = content.decode(errors="replace").strip()
        return f" ({self.log_path}):\n{text}" if text else f": {self.log_path} is empty"
