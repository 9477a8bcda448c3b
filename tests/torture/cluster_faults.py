"""What is done to a cluster of real processes, and healed again; each is noted with whether it was felt.

    kill        kill -9 of a broker that leads something, started again after a while
    everybody   kill -9 of all brokers; all but one come back, and must lead before the last one does
    stop        SIGTERM: leadership is handed over, started again
    pause       SIGSTOP longer than its session: the others take over, and it wakes up believing that it leads
    member      kill -9 of one of three ZooKeeper servers
    members     each of them, one after the other
    majority    two of three are killed; the ensemble goes on when the first of them is back
    ensemble    all ZooKeeper servers away: what leads goes on leading
    cut         a leader's peers cannot reach it, nor it ZooKeeper; clients still can
    disk        a broker's disk is full

Waiting is for conditions, never for a time that somebody hopes to be enough. How long a fault lasts comes
from the seed.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import NewTopic
from histories.history import Fault

from moldau.ensemble import ZooKeeperServer
from moldau.testing import Cluster
from torture.cluster_proxy import Cable
from torture.cluster_record import Recorder, now_s
from torture.cluster_views import View, view_of

KILL, STOP, PAUSE, MEMBER, ENSEMBLE, CUT, DISK = "kill", "stop", "pause", "member", "ensemble", "cut", "disk"
MEMBERS, MAJORITY, EVERYBODY = "members", "majority", "everybody"
FELT_WITHIN_S = 60.0
POLL_S = 0.1


class Faults:
    """Carries faults out, one at a time. `cables`: of each broker, to it and from it to ZooKeeper."""

    def __init__(
        self,
        cluster: Cluster,
        topic: str,
        recorder: Recorder,
        draw: random.Random,
        *,
        longest_s: float,
        cables: Mapping[int, tuple[Cable, Cable]] | None = None,
        disk: Path | None = None,
    ) -> None:
        self.cluster = cluster
        self.topic = topic
        self.draw = draw
        self.longest_s = longest_s
        self.cables = cables or {}
        self.disk = disk
        self.done: list[str] = []
        self._recorder = recorder
        self.felt = False
        self._kinds: dict[str, Callable[[], None]] = {
            KILL: self.kill,
            STOP: self.stop,
            PAUSE: self.pause,
            MEMBER: self.member,
            MEMBERS: self.members,
            MAJORITY: self.majority,
            ENSEMBLE: self.ensemble,
            EVERYBODY: self.everybody,
            CUT: self.cut,
            DISK: self.fill,
        }

    def also(self, kinds: Mapping[str, Callable[[], None]]) -> None:
        """More kinds of faults."""
        self._kinds.update(kinds)

    def strike(self, kind: str) -> None:
        """Carry one out and heal it."""
        self._kinds[kind]()

    def kill(self) -> None:
        node = self.leader()
        with self.fault(f"kill {node}"):
            self.felt = True  # it led a partition: its connections are gone
            self.cluster.kill(node)
            time.sleep(self.seconds(0.0))
            self.cluster.restart(node)

    def everybody(self) -> None:
        nodes = list(self.cluster.node_ids)
        self.draw.shuffle(nodes)
        last = nodes[-1]
        with self.fault(f"kill all brokers, {last} comes back late"):
            self.felt = True
            for node in nodes:
                self.cluster.kill(node)
            for node in nodes[:-1]:
                self.cluster.restart(node)
            self.wait_until_felt(lambda: not self.leads(last))
            assert self.felt, f"partitions wait for broker {last}, and only processes had died"
            self.cluster.restart(last)

    def stop(self, node: int | None = None) -> None:
        chosen = node or self.leader()
        with self.fault(f"stop {chosen}"):
            self.felt = True
            self.cluster.stop(chosen)
            time.sleep(self.seconds(0.0) if node is None else 0.0)
            self.cluster.restart(chosen)

    def rolling(self) -> None:
        """Every broker, one after the other, as an upgrade does it."""
        for node in self.cluster.node_ids:
            self.stop(node)
            self.cluster.wait_until_in_sync()

    def pause(self) -> None:
        node = self.leader()
        with self.fault(f"pause {node}"):
            self.cluster.pause(node)
            try:
                until = time.monotonic() + self.seconds(5.0)
                self.wait_until_felt(lambda: not self.leads(node))
                time.sleep(max(0.0, until - time.monotonic()))
            finally:
                self.cluster.resume(node)

    def member(self, server: ZooKeeperServer | None = None) -> None:
        server = server or self.draw.choice(self.cluster.ensemble.servers)
        name = f"ZooKeeper {server.number} ({server.mode()})"
        with self.fault(f"kill {name}"):
            counts = dict(line.split("\t", 1) for line in server.ask("mntr").splitlines() if "\t" in line)
            self.felt = server.mode() == "leader" or int(counts.get("zk_num_alive_connections", "0")) > 0
            server.kill()
            time.sleep(self.seconds(1.0))
            server.start()

    def members(self) -> None:
        for server in self.draw.sample(self.cluster.ensemble.servers, len(self.cluster.ensemble.servers)):
            self.member(server)

    def majority(self) -> None:
        lost = self.draw.sample(self.cluster.ensemble.servers, 2)
        with self.fault(f"kill ZooKeepers {[each.number for each in lost]}"):
            for server in lost:
                server.kill()
            time.sleep(self.seconds(self.longest_s / 2))
            self.felt = not self._can_change_metadata()
            lost[0].start()
            # Two of three: metadata change again.
            deadline = time.monotonic() + FELT_WITHIN_S
            while not self._can_change_metadata():
                if time.monotonic() > deadline:
                    raise TimeoutError(f"two of three ZooKeepers, but no topic is made for {FELT_WITHIN_S} s")
            lost[1].start()

    def ensemble(self) -> None:
        with self.fault("no ZooKeeper"):
            self.cluster.ensemble.kill()
            time.sleep(self.seconds(self.longest_s / 2))
            self.felt = not self._can_change_metadata()
            self.cluster.ensemble.start()

    def cut(self) -> None:
        node = self.leader()
        with self.fault(f"cut {node} off"):
            cables = self.cables[node]
            chosen = cables if self.draw.random() < 0.6 else (self.draw.choice(cables),)
            for cable in chosen:
                cable.cut()
            try:
                until = time.monotonic() + self.seconds(5.0)
                if cables[1] in chosen:  # its session ends: another leads
                    self.wait_until_felt(lambda: not self.leads(node))
                else:
                    self.wait_until_felt(lambda: self._alone(node))
                time.sleep(max(0.0, until - time.monotonic()))
            finally:
                for cable in chosen:
                    cable.heal()

    def fill(self) -> None:
        """The disk of broker 1 (a small file system of its own) is full, then has room again."""
        assert self.disk is not None
        with self.fault("disk of 1 full"):
            ballast = self.disk / "ballast"
            with suppress(OSError), ballast.open("wb", buffering=0) as file:
                while True:
                    file.write(bytes(65_536))
            try:
                self.wait_until_felt(
                    lambda: "No space left" in self.cluster.log(1).read_text(errors="replace")
                )
                time.sleep(self.seconds(2.0))
            finally:
                ballast.unlink()
            # A broker takes a directory that failed into use again when it starts.
            self.cluster.restart(1)

    @contextmanager
    def fault(self, name: str) -> Iterator[None]:
        fault = Fault(name, now_s())
        self._recorder.note(fault)
        print(f"  {fault.began_s:.1f} {name}", flush=True)
        self.felt = False
        try:
            yield
        finally:
            fault.ended_s, fault.bit = now_s(), self.felt
            self._recorder.note(fault)
            self.done.append(name)
            print(f"  {fault.ended_s:.1f} {name}: over{'' if fault.bit else ', nobody felt it'}", flush=True)

    def seconds(self, least: float) -> float:
        return self.draw.uniform(least, max(least, self.longest_s))

    def wait_until_felt(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + FELT_WITHIN_S
        while not (felt := condition()) and time.monotonic() < deadline:
            time.sleep(POLL_S)
        self.felt = felt

    def leader(self) -> int:
        """A broker that leads a partition of the topic, as those with the latest epochs see it: one that was
        just healed may not know yet that it leads nothing.
        """
        newest: dict[tuple[str, int], tuple[int, int]] = {}
        for address in self.cluster.bootstrap_servers.split(","):
            view = view_of(address)
            for place, (leader, epoch, _) in view.items() if isinstance(view, dict) else ():
                if place[0] == self.topic:
                    newest[place] = max(newest.get(place, (-1, -1)), (epoch, leader))
        leaders = sorted({leader for _, leader in newest.values() if leader > 0})
        return self.draw.choice(leaders or self.cluster.node_ids)

    def leads(self, node: int) -> bool:
        """Whether, as another broker sees it, this broker leads anything; True while nobody answers."""
        view = self._view_without(node)
        return not view or any(leader in (node, -1) for leader, _, _ in view.values())

    def _alone(self, node: int) -> bool:
        """Whether, as another broker sees it, some partition of this leader has lost its followers."""
        return any(
            leader == node and in_sync == (node,) for leader, _, in_sync in self._view_without(node).values()
        )

    def _view_without(self, node: int) -> View:
        """What one of the others believes: the broker that was cut off may still believe in itself."""
        for address, other in zip(
            self.cluster.bootstrap_servers.split(","), self.cluster.node_ids, strict=True
        ):
            view = view_of(address) if other != node else ""
            if isinstance(view, dict):
                return {place: row for place, row in view.items() if place[0] == self.topic}
        return {}

    def _can_change_metadata(self) -> bool:
        name = f"try-{now_s()}"
        admin = self.cluster.admin()
        try:
            admin.create_topics([NewTopic(name, 1)], request_timeout=2, operation_timeout=2)[name].result(5)
        except (KafkaException, TimeoutError):
            return False
        return True
