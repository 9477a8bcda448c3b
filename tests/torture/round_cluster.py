"""Scenarios of clusters: three brokers and a ZooKeeper, real clients, one fault after the other.

Writers, transactions, copiers and group members run through all faults; a witness reads all the while. After
each fault every partition must take records again. In the end everything is healed and drained, and the
checker of tests/histories judges what the clients recorded, together with what simulations use it for.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from client_agents import java_missing, java_program
from confluent_kafka import Consumer, IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from histories.checker import check
from histories.history import History, Place
from histories.lines import from_lines

from bench.clusters import KafkaCluster
from moldau.testing import Cluster
from moldau.testing.ports import reserve_port
from torture import cluster_moves, cluster_partitions, cluster_upgrade
from torture.clients import ClientProcess, JavaProcess
from torture.cluster_client import STOP_READERS, STOP_WRITERS, ClientPlan
from torture.cluster_faults import CUT, DISK, ENSEMBLE, EVERYBODY, MAJORITY, MEMBER, MEMBERS, Faults
from torture.cluster_judge import judge_copies, judge_replicas, longest_pauses
from torture.cluster_moves import Moves
from torture.cluster_partitions import Partitions
from torture.cluster_proxy import Cable
from torture.cluster_record import Recorder
from torture.cluster_security import ClusterSecurity
from torture.cluster_upgrade import UPGRADE, Upgrade
from torture.cluster_views import disagreement
from torture.cluster_witness import ClusterWitness
from torture.load import QUICK_RECONNECT
from torture.network import MachineCluster, Network, may_make_machines
from torture.reading import read_committed
from torture.rounds import COMPLAINTS_SHOWN, Failure, Round
from torture.seeds import generator
from torture.victim import SETTINGS

SOURCE, TARGET, PARTITIONS = "in", "out", 3
TOPICS = {SOURCE: PARTITIONS, TARGET: PARTITIONS}
GROUPS = {"copiers": "copy", "readers": "read"}
RECOVERED_WITHIN_S = 120.0
CLIENTS_END_WITHIN_S = 240.0
DISK_BYTES = 64 << 20
JAVA_VERSIONS = ("", "3.9.1")
"""Of kafka-clients; "" is the newest."""
ROLLING = "rolling"
MOLDAUS = {
    MEMBER,
    MEMBERS,
    MAJORITY,
    ENSEMBLE,
    EVERYBODY,
    CUT,
    DISK,
    *cluster_moves.KINDS,
    *cluster_partitions.KINDS,
    UPGRADE,
}
"""Faults that the harness does to Moldau's clusters only."""
# A broken connection, a fenced broker, a refused metadata change: all that is to be expected. This is not.
ALARM = re.compile(r"Traceback|\bCRITICAL\b")
CLUSTER_SETTINGS: Mapping[str, str] = {
    **SETTINGS,
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "replica.lag.time.max.ms": "5000",
    # A broker that starts while ZooKeeper is away, or on a busy machine, waits for it.
    "zookeeper.connection.timeout.ms": "60000",
    "log.segment.bytes": "1048576",
}


@dataclass(frozen=True)
class ClusterSize:
    """How much a round does. `kinds`: what may happen, in this order or, if `count` is given, drawn from."""

    kinds: Sequence[str]
    count: int = 0
    longest_s: float = 20.0
    zookeepers: int = 1
    brokers: int = 3
    clients: tuple[tuple[str, int], ...] = (("write", 2), ("transact", 1), ("copy", 2), ("read", 2))
    secured: bool = False
    """Clients and brokers log in, over TLS (cluster_security.py)."""
    java: bool = False
    """One more client of each kind, of the newest Java library or of 3.9, whichever the seed says."""


def run(torture: Round, size: ClusterSize) -> str:
    """Returns one line about what happened; raises Failure with all complaints."""
    if DISK in size.kinds and not may_mount():
        return "skipped: a small disk is a file system of its own, which only root can mount"
    if set(cluster_partitions.KINDS) & set(size.kinds) and (reason := may_make_machines()):
        return f"skipped: {reason}"
    if torture.kind != "moldau" and (size.secured or MOLDAUS & set(size.kinds)):
        return "skipped: these scenarios are made for Moldau's clusters"
    draw = generator(torture.seed, "faults")
    kinds = list(size.kinds) if not size.count else [draw.choice(list(size.kinds)) for _ in range(size.count)]
    with ExitStack() as stack:
        network = None
        if set(cluster_partitions.KINDS) & set(size.kinds):
            network = stack.enter_context(Network(size.brokers, torture.seed))
        cluster, cables, disk, security = _cluster(torture, size, stack, network)
        for name in TOPICS:
            cluster.create_topic(name, PARTITIONS)
        recorder = Recorder(torture.folder / "harness.history")
        stack.callback(recorder.close)
        witness = ClusterWitness(cluster.bootstrap_servers, TOPICS, recorder)
        clients = _clients(torture, size, cluster.bootstrap_servers, security)
        for one in clients:
            one.start()
        progress = _Progress(torture.folder, SOURCE)
        progress.wait_for_all()
        faults = Faults(cluster, SOURCE, recorder, draw, longest_s=size.longest_s, cables=cables, disk=disk)
        faults.also(Moves(faults, TOPICS, torture.folder).kinds())
        faults.also(Upgrade(faults, torture.folder).kinds())
        if network is not None:
            faults.also(Partitions(faults, network).kinds())
        for kind in kinds:
            faults.rolling() if kind == ROLLING else faults.strike(kind)
            progress.wait_for_all()
            _restart_fallen(clients)
        cluster.wait_until_in_sync()
        torture.complain(
            filter(None, [disagreement(cluster.bootstrap_servers.split(","), RECOVERED_WITHIN_S)])
        )
        history = _drain(torture, cluster, clients, witness)
        for node in cluster.node_ids:
            cluster.stop(node)
        _judge(torture, cluster, history, with_copies=any(kind == "copy" for kind, _ in size.clients))
    if torture.complaints:
        more = len(torture.complaints) - COMPLAINTS_SHOWN
        shown = "\n  ".join(torture.complaints[:COMPLAINTS_SHOWN]) + (
            f"\n  and {more} more" if more > 0 else ""
        )
        raise Failure(f"seed {torture.seed}, {faults.done}, {torture.folder}:\n  {shown}")
    pause_s = max(longest_pauses(history, SOURCE).values(), default=0.0)
    return (
        f"{check(history).counts['acknowledged']} acknowledged, {len(faults.done)} faults, "
        f"longest pause of a partition {pause_s:.1f} s"
    )


def _cluster(
    torture: Round, size: ClusterSize, stack: ExitStack, network: Network | None
) -> tuple[Cluster, dict[int, tuple[Cable, Cable]], Path | None, ClusterSecurity | None]:
    """Start it: on machines, or with cables between brokers and a small disk, where the round needs them."""
    if torture.kind != "moldau":  # to see whether a scenario is right in the first place
        kafka = KafkaCluster({**CLUSTER_SETTINGS, **torture.settings}, data=torture.folder / "cluster")
        stack.callback(kafka.stop)
        return kafka.start(), {}, None, None  # type: ignore[return-value]
    if network is not None:
        cluster = MachineCluster(
            network, {**CLUSTER_SETTINGS, **torture.settings}, torture.folder / "cluster"
        )
        stack.callback(cluster.stop)
        return cluster.start(), {}, None, None
    programs = {}
    if UPGRADE in size.kinds:
        programs = {
            node: cluster_upgrade.program(torture.folder, node) for node in range(1, size.brokers + 1)
        }
    cluster = Cluster(
        size.brokers,
        {**CLUSTER_SETTINGS, **torture.settings},
        zookeepers=size.zookeepers,
        programs=programs,
        data=torture.folder / "cluster",
    )
    disk: Path | None = None
    if DISK in size.kinds:
        disk = stack.enter_context(_small_disk())
        cluster.configure(1, {"log.dirs": str(disk / "data")})
    cables: dict[int, tuple[Cable, Cable]] = {}
    if CUT in size.kinds:
        cluster.ensemble.start()
        host, _, port = cluster.ensemble.connect_string.partition(":")
        for node in cluster.node_ids:
            inside = reserve_port()
            stack.callback(inside.release)
            clients = reserve_port()
            stack.callback(clients.release)
            pair = Cable(("127.0.0.1", inside.number)), Cable((host, int(port)))
            for cable in pair:
                stack.callback(cable.close)
            cables[node] = pair
            at = f"PLAINTEXT://127.0.0.1:{clients.number}"
            cluster.configure(
                node,
                {
                    "listeners": f"{at},PEERS://127.0.0.1:{inside.number}",
                    "advertised.listeners": f"{at},PEERS://{pair[0].address}",
                    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,PEERS:PLAINTEXT",
                    "inter.broker.listener.name": "PEERS",
                    "zookeeper.connect": pair[1].address,
                },
            )
    security = ClusterSecurity(cluster, torture.folder / "certificates", stack) if size.secured else None
    stack.callback(cluster.stop)
    cluster.start()
    if security is not None:
        security.grant()
    return cluster, cables, disk, security


@contextmanager
def _small_disk() -> Iterator[Path]:
    """A file system of a few megabytes in memory; only root can mount one."""
    folder = Path(tempfile.mkdtemp(prefix="moldau-small-disk-"))
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=False)
        folder.rmdir()


def may_mount() -> bool:
    """Whether a small disk can be made here."""
    if os.geteuid() != 0:
        return False
    try:
        with _small_disk():
            return True
    except (OSError, subprocess.CalledProcessError):
        return False


def _clients(
    torture: Round, size: ClusterSize, address: str, security: ClusterSecurity | None
) -> list[ClientProcess]:
    found = []
    settings: tuple[tuple[str, Any], ...] = ()
    if security is not None:
        address, settings = security.address, tuple(security.client_settings().items())
    for kind, count in size.clients:
        for number in range(count):
            plan = _plan(torture, kind, f"{kind}{number}", address, settings)
            found.append(torture.client(plan.name, "torture.cluster_client", plan.to_json()))
    if size.java and (reason := java_missing()):
        print(f"  without Java's clients: {reason}", flush=True)
    elif size.java:
        version = JAVA_VERSIONS[torture.seed // 2 % len(JAVA_VERSIONS)]  # // 2: each with both protocols
        program = java_program("moldau.ClusterClient", version)
        for kinds in (("write", "transact"), ("copy", "read")):  # those end before these
            plans = [_plan(torture, kind, f"{kind}-java{version}", address) for kind in kinds]
            command = [*program, *(each.to_json() for each in plans)]
            found.append(torture.add_client(JavaProcess(plans[0].name, command, torture.folder)))
    return found


def _plan(
    torture: Round, kind: str, name: str, address: str, settings: tuple[tuple[str, Any], ...] = ()
) -> ClientPlan:
    return ClientPlan(
        kind,
        name,
        address,
        torture.seed,
        str(torture.folder),
        SOURCE,
        PARTITIONS,
        target=TARGET if kind == "copy" else "",
        group={made: group for group, made in GROUPS.items()}.get(kind, ""),
        protocol="consumer" if kind == "copy" and torture.seed % 2 else "classic",
        settings=settings,
    )


def _restart_fallen(clients: Sequence[ClientProcess]) -> None:
    """A copier that gave itself up (librdkafka hangs) comes back; what is wrong is judged in the end."""
    for one in clients:
        if not one.running() and one.name.startswith("copy"):
            one.deaths += 1
            one.start()


class _Progress:
    """What the writers were told so far, read from their files as these grow."""

    def __init__(self, folder: Path, topic: str) -> None:
        self._folder = folder
        self._topic = topic
        self._read: dict[Path, int] = {}
        self._acknowledged: Counter[int] = Counter()

    def wait_for_all(self) -> None:
        """Wait until every partition has acknowledged more; TimeoutError names those that have not."""
        before = Counter(self._look())
        deadline = time.monotonic() + RECOVERED_WITHIN_S
        while stuck := [one for one in range(PARTITIONS) if self._look()[one] < before[one] + 5]:
            if time.monotonic() > deadline:
                raise Failure(
                    f"no record was acknowledged in partitions {stuck} for {RECOVERED_WITHIN_S:.0f} s: "
                    f"see {self._folder}"
                )
            time.sleep(0.05)

    def _look(self) -> Counter[int]:
        for path in self._folder.glob("write*.history"):
            start = self._read.get(path, 0)
            with path.open("rb") as file:
                file.seek(start)
                data = file.read()
            whole = data[: data.rfind(b"\n") + 1]
            self._read[path] = start + len(whole)
            for line in whole.splitlines():
                if b'"acknowledged"' in line:
                    topic, partition = json.loads(line)["send"][2]
                    self._acknowledged[partition] += topic == self._topic
        return self._acknowledged


def _drain(
    torture: Round, cluster: Cluster, clients: Sequence[ClientProcess], witness: ClusterWitness
) -> History:
    """Stop the writers, let the readers come to the end, read everything once more."""
    (torture.folder / STOP_WRITERS).touch()
    _wait_for(torture, [one for one in clients if one.name.startswith(("write", "transact"))])
    ends = settled_ends(torture, cluster, {SOURCE: PARTITIONS})
    seen = read_committed(cluster.bootstrap_servers, {SOURCE: PARTITIONS}, ends)
    last: dict[Place, int] = {}
    for one in seen:
        last[one.topic, one.partition] = one.offset + 1
    readers = [one for one in clients if not one.name.startswith(("write", "transact"))]
    for group, kind in GROUPS.items():
        if any(one.name.startswith(kind) for one in readers):
            _wait_for_group(torture, cluster, group, last, readers)
    (torture.folder / STOP_READERS).touch()
    _wait_for(torture, readers)
    witness.finish()
    history = _load(torture.folder)
    for topic in TOPICS:
        ends = settled_ends(torture, cluster, {topic: PARTITIONS})
        for one in read_committed(cluster.bootstrap_servers, {topic: PARTITIONS}, ends):
            history.final.setdefault((topic, one.partition), []).append(
                (one.offset, (one.value or b"").decode())
            )
        history.final_ends |= ends
    return history


def _load(folder: Path) -> History:
    lines: list[str] = []
    for path in sorted(folder.glob("*.history")):
        lines += path.read_text().splitlines()
    return from_lines(lines)


def _wait_for(torture: Round, clients: Sequence[ClientProcess]) -> None:
    deadline = time.monotonic() + CLIENTS_END_WITHIN_S
    while any(one.running() for one in clients) and time.monotonic() < deadline:
        time.sleep(0.05)
    for one in clients:
        if one.running():
            one.tell_where()
            torture.complain([f"client {one.name} does not end: see {one.log}"])
    torture.complain_of_fallen(clients)


def settled_ends(torture: Round, cluster: Cluster, topics: Mapping[str, int]) -> dict[Place, int]:
    """The ends of all partitions once nothing is open in them; else a complaint."""
    wanted = {
        TopicPartition(topic, number): OffsetSpec.latest()
        for topic, count in topics.items()
        for number in range(count)
    }
    deadline = time.monotonic() + RECOVERED_WITHIN_S
    while True:
        found: list[dict[Place, int]] = []
        hanging = "nobody answers"
        try:
            for isolation in (IsolationLevel.READ_UNCOMMITTED, IsolationLevel.READ_COMMITTED):
                # A new one each time: librdkafka's keeps the leader epochs that it has seen once.
                admin = AdminClient({**QUICK_RECONNECT, "bootstrap.servers": cluster.bootstrap_servers})
                futures = admin.list_offsets(dict(wanted), isolation_level=isolation, request_timeout=10)
                found.append(
                    {(at.topic, at.partition): each.result(15).offset for at, each in futures.items()}
                )
            hanging = (
                "" if found[0] == found[1] else f"open transactions: stable to {found[1]}, ends {found[0]}"
            )
        except (KafkaException, TimeoutError) as error:
            hanging = str(error)
        if not hanging:
            return found[0]
        if time.monotonic() > deadline:
            raise Failure(f"after {RECOVERED_WITHIN_S:.0f} s {hanging}: see {torture.folder}")
        time.sleep(0.2)


def _wait_for_group(
    torture: Round, cluster: Cluster, group: str, ends: Mapping[Place, int], readers: Sequence[ClientProcess]
) -> None:
    """Until a group has committed everything."""
    config: dict[str, Any] = {
        **QUICK_RECONNECT,
        "bootstrap.servers": cluster.bootstrap_servers,
        "group.id": group,
    }
    asking = Consumer(config)
    deadline = time.monotonic() + CLIENTS_END_WITHIN_S
    try:
        while True:
            _restart_fallen(readers)
            behind: object = "nobody answers"
            try:
                found = asking.committed([TopicPartition(*place) for place in ends], 10)
                behind = {
                    f"{one.topic}-{one.partition}": (one.offset, ends[one.topic, one.partition])
                    for one in found
                    if one.offset < ends[one.topic, one.partition]
                }
            except KafkaException as error:
                behind = str(error)
            if not behind:
                return
            if time.monotonic() > deadline:
                torture.complain([f"group {group} does not come to the end: {behind}"])
                return
            time.sleep(0.2)
    finally:
        asking.close()


def _judge(torture: Round, cluster: Cluster, history: History, *, with_copies: bool) -> None:
    verdict = check(history)
    print(f"  {str(verdict).splitlines()[0]}", flush=True)
    torture.complain(map(str, verdict.complaints))
    if verdict.result == "unknown":
        torture.complain(["no fault was felt, or nothing was acknowledged: this round proves nothing"])
    if with_copies:
        torture.complain(judge_copies(history, SOURCE, TARGET))
    folders = {node: cluster.log_folder(node) for node in cluster.node_ids}
    torture.complain(judge_replicas(folders, [(topic, n) for topic in TOPICS for n in range(PARTITIONS)]))
    for node in cluster.node_ids:
        for line in cluster.log(node).read_text(errors="replace").splitlines():
            if ALARM.search(line):
                torture.complain([f"broker {node} says: {line}"])
