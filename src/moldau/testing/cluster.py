"""`Cluster`: several real brokers and a ZooKeeper for a test, each a process that can be killed or paused.

    with Cluster() as cluster:
        cluster.create_topic("orders", partitions=6)                # three replicas
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
        ...
        cluster.kill(cluster.leader_of("orders", 0))                # kill -9: the others take over
        ...
        cluster.wait_until_in_sync()                                # after `restart`: it has caught up

Brokers are numbered from 1 (`node.id`). Their ports stay the same until `stop`, so `bootstrap_servers` holds
whoever is dead. Settings are those of `moldau cluster` (cluster_settings.py): three replicas, two in
sync, a dead broker is noticed after two seconds. ZooKeeper needs Java (moldau/ensemble).

The data is in a temporary folder that is removed at the end, unless a folder is given. Not here: brokers that
outlive the test's process (`moldau cluster`), a single broker in a thread (broker.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from moldau.testing.broker import START_TIMEOUT_SECONDS, Broker, as_text, dotted
from moldau.testing.cluster_settings import broker_settings

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient, ClusterMetadata

    from moldau.ensemble import Ensemble

_POLL_SECONDS = 0.05
_REQUEST_TIMEOUT_SECONDS = 10.0


class Cluster:
    """A cluster for the length of the `with` block; start() and stop() do the same explicitly.

    `brokers`: how many; `zookeepers`: 1 or 3. Settings have Kafka's names, in `settings` or as keywords with
    underscores for dots, and are for all brokers; `each` has more for single ones, by number. `programs`: the
    words before `serve` of single brokers' command lines, for another release or another network namespace.
    """

    def __init__(
        self,
        brokers: int = 3,
        settings: Mapping[str, object] | None = None,
        *,
        zookeepers: int = 1,
        each: Mapping[int, Mapping[str, object]] | None = None,
        programs: Mapping[int, Sequence[str]] | None = None,
        data: Path | str | None = None,
        **named_settings: object,
    ) -> None:
        named = {**(settings or {}), **dotted(named_settings)}
        self.settings = {name: as_text(value) for name, value in named.items()}
        self.brokers: dict[int, Broker] = {}
        self._count = brokers
        self._zookeepers = zookeepers
        self._each = {number: dict(more) for number, more in (each or {}).items()}
        self._programs = dict(programs or {})
        self._given_data = Path(data) if data is not None else None
        self._data: Path | None = None
        self._ensemble: Ensemble | None = None
        self._admin: AdminClient | None = None
        self._client_settings: dict[str, str] = {}
        self._addresses: list[str] = []

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all brokers, of dead ones too."""
        return ",".join(self._addresses)

    @property
    def node_ids(self) -> list[int]:
        """The brokers' numbers."""
        return list(range(1, self._count + 1))

    @property
    def data(self) -> Path:
        """The folder with the data and logs of all servers."""
        if self._data is None:
            raise RuntimeError("the cluster has not been started")
        return self._data

    @property
    def ensemble(self) -> Ensemble:
        """The ZooKeeper servers; each can be killed and started."""
        from moldau.ensemble import Ensemble

        if self._ensemble is None:
            # What a test's ZooKeeper has acknowledged need not survive a power cut.
            self._ensemble = Ensemble(self._folder(), self._zookeepers, syncs=False)
        return self._ensemble

    def configure(self, node_id: int, settings: Mapping[str, object]) -> None:
        """Give one broker settings of its own, which count when it is started the next time."""
        more = {name: as_text(value) for name, value in settings.items()}
        self._each.setdefault(node_id, {}).update(more)
        if node_id in self.brokers:
            self.brokers[node_id].settings.update(more)

    def log_folder(self, node_id: int) -> Path:
        """The folder with a broker's partitions."""
        own = self._each.get(node_id, {}).get("log.dirs") or self.settings.get("log.dirs")
        return Path(str(own)) if own else self.data / f"broker-{node_id}"

    def log(self, node_id: int) -> Path:
        """The log of a broker over all of its starts."""
        return self.data / f"broker-{node_id}.log"

    def start(self) -> Cluster:
        """Start ZooKeeper and all brokers; return once all are registered."""
        try:
            self.ensemble.start()
            for node_id in self.node_ids:
                if node_id not in self.brokers:
                    self.brokers[node_id] = self._new_broker(node_id)
            self._start_all()
            self._addresses = [self.brokers[node_id].bootstrap_servers for node_id in self.node_ids]
            self.wait_until_in_sync()
        except BaseException:
            self.stop()
            raise
        return self

    def _folder(self) -> Path:
        if self._data is None:
            self._data = self._given_data or Path(tempfile.mkdtemp(prefix="moldau-cluster-"))
            self._data.mkdir(parents=True, exist_ok=True)
        return self._data

    def _new_broker(self, node_id: int) -> Broker:
        own = {name: as_text(value) for name, value in self._each.get(node_id, {}).items()}
        settings = broker_settings(
            node_id, self._count, self.ensemble.connect_string, {**self.settings, **own}
        )
        return Broker(
            settings,
            process=True,
            data=self.data / f"broker-{node_id}",
            log=self.log(node_id),
            program=self._programs.get(node_id, ()),
        )

    def _start_all(self) -> None:
        with ThreadPoolExecutor(max_workers=8) as pool:
            started = [pool.submit(broker.start) for broker in self.brokers.values() if not broker.running]
        for each in started:
            each.result()

    def stop(self, node_id: int | None = None) -> None:
        """Stop one broker as SIGTERM does, or without a number the whole cluster, and remove its folder."""
        if node_id is not None:
            self.resume(node_id)
            self.brokers[node_id].halt()
            return
        keeps = self._given_data is not None
        self._admin = None
        for broker in self.brokers.values():
            with contextlib.suppress(Exception):  # what does not stop is killed
                if keeps:
                    self._resume(broker)
                    broker.halt()
            broker.kill()
            broker.stop()
        self.brokers.clear()
        if self._ensemble is not None:
            self._ensemble.stop() if keeps else self._ensemble.kill()
            self._ensemble = None
        if self._data is not None and not keeps:
            shutil.rmtree(self._data, ignore_errors=True)
        self._data = None

    def kill(self, node_id: int) -> None:
        """Kill a broker as `kill -9` does."""
        self.brokers[node_id].kill()

    def pause(self, node_id: int) -> None:
        """Stop a broker's process in its tracks (SIGSTOP); its connections stay open. `resume` ends it."""
        os.kill(self.brokers[node_id].pid, signal.SIGSTOP)

    def resume(self, node_id: int) -> None:
        """Let a paused broker go on."""
        self._resume(self.brokers[node_id])

    @staticmethod
    def _resume(broker: Broker) -> None:
        if broker.running:
            os.kill(broker.pid, signal.SIGCONT)

    def lose_leader(self, topic: str, partition: int = 0) -> int:
        """Kill the broker that leads a partition, and wait until another does; its number, for `restart`.

        TimeoutError: no other replica can lead.
        """
        lost = self.leader_of(topic, partition)
        self.kill(lost)

        def another() -> bool:
            return self.leader_of(topic, partition) != lost

        self._wait_for(another, START_TIMEOUT_SECONDS, f"{topic}-{partition} has no other leader")
        return lost

    def restart(self, node_id: int) -> None:
        """Stop a broker (unless it was killed) and start it again; returns when it serves clients."""
        self.resume(node_id)
        self.brokers[node_id].restart()

    def create_topic(
        self, name: str, partitions: int = 1, replication_factor: int = -1, **settings: object
    ) -> None:
        """Create a topic and wait for it; -1 is the cluster's replication factor."""
        from confluent_kafka.admin import NewTopic

        config = {key: as_text(value) for key, value in dotted(settings).items()}
        topic = NewTopic(name, partitions, replication_factor, config=config)
        made = self.admin().create_topics([topic], request_timeout=START_TIMEOUT_SECONDS / 2)
        made[name].result(START_TIMEOUT_SECONDS)

    def admin(self) -> AdminClient:
        """Return an admin client of the cluster."""
        from confluent_kafka.admin import AdminClient

        if self._admin is None:
            # librdkafka would log each broker that a test kills, and wait for one that is paused.
            self._admin = AdminClient(
                {
                    "bootstrap.servers": self.bootstrap_servers,
                    "log_level": 0,
                    "socket.timeout.ms": 3000,
                    **self._client_settings,
                }
            )
        return self._admin

    def use_client_settings(self, settings: Mapping[str, str]) -> None:
        """How `admin`, and all that waits for the cluster, connects from now on (librdkafka's names)."""
        self._client_settings = dict(settings)
        self._admin = None

    def leader_of(
        self, topic: str, partition: int = 0, timeout_seconds: float = START_TIMEOUT_SECONDS
    ) -> int:
        """Return the number of a partition's leader; waits while there is none."""

        def leader() -> int | None:
            found = self._metadata(topic)
            at = found.topics[topic].partitions.get(partition) if found is not None else None
            return at.leader if at is not None and at.leader > 0 else None

        return int(self._wait_for(leader, timeout_seconds, f"{topic}-{partition} has no leader"))

    def controller(self, timeout_seconds: float = START_TIMEOUT_SECONDS) -> int:
        """Return the number of the broker that is the controller; waits while there is none."""

        def controller() -> int | None:
            found = self._metadata()
            return found.controller_id if found is not None and found.controller_id > 0 else None

        return int(self._wait_for(controller, timeout_seconds, "there is no controller"))

    def wait_until_in_sync(self, timeout_seconds: float = START_TIMEOUT_SECONDS) -> None:
        """Return once every broker is registered and every replica in sync; TimeoutError says what is not."""
        missing = "no broker answers"

        def whole() -> bool:
            nonlocal missing
            found = self._metadata()
            missing = "no broker answers" if found is None else self._missing(found)
            return not missing

        try:
            self._wait_for(whole, timeout_seconds, "")
        except TimeoutError:
            raise TimeoutError(f"after {timeout_seconds:.0f} s: {missing}") from None

    def _missing(self, found: ClusterMetadata) -> str:
        absent = [node_id for node_id in self.node_ids if node_id not in found.brokers]
        if absent:
            return f"brokers {absent} are not registered"
        lagging = [
            f"{name}-{index} ({partition.isrs} of {partition.replicas})"
            for name, topic in sorted(found.topics.items())
            for index, partition in sorted(topic.partitions.items())
            if partition.leader < 0 or len(partition.isrs) < len(partition.replicas)
        ]
        return f"not in sync: {', '.join(lagging[:10])}" if lagging else ""

    def _metadata(self, topic: str | None = None) -> ClusterMetadata | None:
        from confluent_kafka import KafkaException

        try:
            return self.admin().list_topics(topic, timeout=_REQUEST_TIMEOUT_SECONDS)
        except KafkaException:
            return None

    @staticmethod
    def _wait_for(probe: Callable[[], Any], timeout_seconds: float, failure: str) -> Any:
        deadline = time.monotonic() + timeout_seconds
        while not (answer := probe()):
            if time.monotonic() > deadline:
                raise TimeoutError(f"after {timeout_seconds:.0f} s: {failure}")
            time.sleep(_POLL_SECONDS)
        return answer

    def __enter__(self) -> Cluster:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Cluster:
        return await asyncio.to_thread(self.start)

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.stop)
