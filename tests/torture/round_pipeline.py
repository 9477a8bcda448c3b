"""Scenario d: a Spark pipeline writes every result exactly once, while parts of it and the broker are killed.

A producer writes the numbers from 0 up; pipeline.py squares them and counts them by window. Killed are the
broker (or the broker while it starts), the whole driver, its Python process alone (the JVM goes on for a
moment: a zombie), its JVM alone, one of its Python workers, and on a cluster an executor or a worker. A
driver that has ended is started again on the same checkpoints.

Progress is what a read_committed consumer has seen of the squares. The producer is never far ahead of it, so
that a kill always hits a pipeline with something to do, however slow the machine is. When all is there the
driver is killed once more, and the note that its last batches are done is taken away from the checkpoints: it
does them again, and that must change nothing.
"""

from __future__ import annotations

import os
import random
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Producer
from pipelines.cluster import SparkCluster, environment

from torture import HERE, kills
from torture.aftermath import settled_ends
from torture.judge_pipeline import expected_results, judge_results
from torture.judge_transactions import differences
from torture.kills import Kill
from torture.load import QUICK_RECONNECT
from torture.pipeline import LATENESS, NUMBERS, OUTSTANDING_MAX, PARTITIONS, SQUARES, WINDOWS, PipelinePlan
from torture.raw_reading import read_by_hand
from torture.reading import Witness, read_committed
from torture.rounds import Round
from torture.seeds import generator
from torture.spark_driver import SparkDriver

DRIVER, PYTHON, JAVA, PYTHON_WORKER = "driver", "driver's Python", "driver's JVM", "Python worker"
EXECUTOR, SPARK_WORKER = "executor", "Spark worker"
# After these the driver may end by itself; after all others it has to wait, repeat and go on.
EXCUSES = {PYTHON, JAVA, PYTHON_WORKER}
FALLS_MAX = 2
FLUSH = 1_000_000
STUCK_AFTER_S = 120.0


@dataclass(frozen=True)
class PipelineSize:
    """How much a round does, and who is killed at least once, beside the broker and the driver."""

    records: int
    kills: int
    others: tuple[str, ...]
    app: bool = False
    cluster: bool = False


def run(torture: Round, size: PipelineSize) -> str:
    """One round; `size` says whether on a cluster, and whether as an app."""
    victim = torture.victim({})
    victim.start()
    torture.create_topics(PARTITIONS)
    cluster = SparkCluster(torture.folder / "cluster") if size.cluster else None
    try:
        if cluster is not None:
            cluster.start()
        driver = _driver(torture, size, cluster.master if cluster is not None else "local[2,4]")
        return _torment(torture, size, driver, cluster)
    finally:
        if cluster is not None:
            cluster.stop()


def _torment(torture: Round, size: PipelineSize, driver: SparkDriver, cluster: SparkCluster | None) -> str:
    witness = Witness(torture.address, {SQUARES: PARTITIONS[SQUARES], WINDOWS: PARTITIONS[WINDOWS]})
    numbers = [*range(size.records), size.records + FLUSH]
    expected = expected_results(numbers, size.records + FLUSH - LATENESS)
    feeder = _Feeder(torture.address, numbers, lambda: _count(witness, SQUARES), size.records // 5)
    struck: list[str] = []

    def strike(kill: Kill) -> None:
        struck.append(kill.who)
        _strike(torture, driver, cluster, kill)

    falls: list[str] = []

    def finished() -> bool:
        if not driver.running():
            falls.append(driver.failed() or "the driver has ended")
            if len(falls) > FALLS_MAX + len(struck):
                raise kills.Stuck(f"the driver falls and falls: {falls[-1]}")
            driver.start()
        return all(_count(witness, topic) >= len(results) for topic, results in expected.items())

    driver.start()
    plan = schedule(generator(torture.seed, "kills"), size)
    done = torture.torment(
        [driver], plan, strike, finished, lambda: _count(witness, SQUARES), stuck_after_s=STUCK_AFTER_S
    )
    feeder.stop()
    excused = sum(who in EXCUSES for who in struck)
    if len(falls) > excused:
        torture.complain([f"{len(falls)} falls of the driver, {excused} excused ones: {falls[-1]}"])
    _repeat_last_batches(torture, driver)
    if cluster is not None:
        cluster.stop()
    ends, hanging = settled_ends(torture.address, PARTITIONS, 90)
    torture.complain(hanging)
    ends = {place: end for place, end in ends.items() if place[0] != NUMBERS}
    targets = {topic: PARTITIONS[topic] for topic in (SQUARES, WINDOWS)}
    seen = read_committed(torture.address, targets, ends)
    torture.complain(judge_results(expected, seen))
    torture.complain(differences("a witness and a later reading", witness.finish(ends), seen))
    by_hand, wrong = read_by_hand(torture.address, ends)
    torture.complain(wrong)
    torture.complain(differences("a client's reading and one by hand", seen, by_hand))
    torture.verdict()
    results = ", ".join(f"{len(one)} {topic}" for topic, one in expected.items())
    return f"{results}, each once; {done} strikes: {', '.join(struck)}; {len(falls)} falls"


def schedule(draw: random.Random, size: PipelineSize) -> list[Kill]:
    """Broker and driver at least once, the size's others too, then any; in a drawn order at drawn moments."""
    kinds = [kills.BROKER, DRIVER, *size.others][: size.kills]
    more = [kills.BROKER, kills.STARTING, DRIVER, *size.others]
    kinds += [draw.choice(more) for _ in range(size.kills - len(kinds))]
    draw.shuffle(kinds)
    moments = sorted(draw.randrange(size.records // 20, size.records * 9 // 10) for _ in kinds)
    return [Kill(at, who, draw.random()) for at, who in zip(moments, kinds, strict=True)]


def _strike(torture: Round, driver: SparkDriver, cluster: SparkCluster | None, kill: Kill) -> None:
    victim = torture.the_victim
    if kill.who in (kills.BROKER, kills.STARTING):
        victim.kill()
        if kill.who == kills.STARTING:
            victim.kill_while_starting(0.2 + kill.detail)
        victim.start()
    elif kill.who == DRIVER:
        driver.kill()
        driver.start()
    elif kill.who == PYTHON:
        driver.kill_python()
        driver.start()
    elif kill.who == JAVA:
        driver.kill_java()
    elif kill.who == PYTHON_WORKER:
        driver.kill_worker(kill.detail)
    elif kill.who == EXECUTOR:
        assert cluster is not None
        executors = cluster.executors()
        if executors:
            os.kill(executors[int(kill.detail * len(executors))], 9)
    elif kill.who == SPARK_WORKER:
        assert cluster is not None
        number = int(kill.detail * cluster.worker_count)
        cluster.kill_worker(number)
        cluster.start_worker(number)
    else:
        raise ValueError(kill.who)


def _driver(torture: Round, size: PipelineSize, master: str) -> SparkDriver:
    if size.app:
        arguments = ["-m", "moldau", "streams", "run", str(HERE / "pipeline_app.py"), "--json"]
        arguments += ["--master", master, "--checkpoints", str(torture.folder / "checkpoints")]
        arguments += ["--bootstrap-server", torture.address]
        arguments += ["--spark", f"spark.local.dir={torture.folder / 'spark'}"]
    else:
        plan = PipelinePlan(torture.address, master, str(torture.folder))
        arguments = ["-m", "torture.pipeline", plan.to_json()]
    driver = SparkDriver("driver", [sys.executable, *arguments], torture.folder, environment())
    torture.add_client(driver)
    return driver


class _Feeder:
    """Writes the numbers in order, never far ahead of what has come out; waits through every restart."""

    def __init__(self, address: str, numbers: list[int], done: Callable[[], int], ahead_max: int) -> None:
        self._address, self._numbers, self._done, self._ahead_max = address, numbers, done, ahead_max
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join(30)

    def _run(self) -> None:
        settings = {"enable.idempotence": True, "message.timeout.ms": 0, "linger.ms": 2, "log_level": 0}
        producer = Producer({**QUICK_RECONNECT, **settings, "bootstrap.servers": self._address})
        for count, number in enumerate(self._numbers):
            while not self._stopped.is_set() and (
                len(producer) >= OUTSTANDING_MAX or count > self._done() + self._ahead_max
            ):
                producer.poll(0.01)
            producer.produce(NUMBERS, b'{"n": %d}' % number, partition=number % PARTITIONS[NUMBERS])
            producer.poll(0)
        while not self._stopped.is_set() and len(producer):
            producer.flush(0.1)


def _count(witness: Witness, topic: str) -> int:
    return witness.counts.get(topic, 0)


class _Checkpoints:
    """The checkpoints of both queries, looked at from outside: numbered files in `offsets` and `commits`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def at_rest(self) -> bool:
        """Whether every batch that was begun is noted as done."""
        newest = self._newest("offsets")
        return bool(newest) and newest == self._newest("commits")

    def forget_last_commits(self) -> dict[Path, int]:
        """As if the driver had died just before it noted the newest batch of each query as done."""
        newest = self._newest("commits")
        for query, number in newest.items():
            for name in (f"{number}", f".{number}.crc"):
                (query / "commits" / name).unlink(missing_ok=True)
        return newest

    def have(self, commits: Mapping[Path, int]) -> bool:
        """Whether these batches are noted as done."""
        newest = self._newest("commits")
        return all(newest.get(query, -1) >= number for query, number in commits.items())

    def _newest(self, kind: str) -> dict[Path, int]:
        found = {}
        for folder in self._folder.rglob(kind):
            numbers = [int(path.name) for path in folder.iterdir() if path.name.isdigit()]
            found[folder.parent] = max(numbers, default=-1)
        return found


def _repeat_last_batches(torture: Round, driver: SparkDriver) -> None:
    """Let a new driver do the last batch of each query again, although its results are there."""
    checkpoints = _Checkpoints(torture.folder / "checkpoints")
    if not _until(checkpoints.at_rest):
        torture.complain(["the driver does not come to rest although all results are there"])
        return
    driver.kill()
    forgotten = checkpoints.forget_last_commits()
    driver.start()
    if not _until(lambda: checkpoints.have(forgotten) or not driver.running()) or not driver.running():
        torture.complain([f"the last batches are not repeated: {driver.failed() or 'the driver still runs'}"])
    driver.kill()


def _until(true: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + STUCK_AFTER_S
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
