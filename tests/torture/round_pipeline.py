"""Scenario d: a Spark pipeline writes every result exactly once, while parts of it and the broker are killed.

A producer writes the numbers from 0 up; pipeline.py squares them and counts them by window. Killed are the
broker (or the broker while it starts), the whole driver, its Python process alone (the JVM goes on for a
moment: a zombie), its JVM alone, one of its Python workers, and on a cluster an executor or a worker. A
driver that has ended is started again on the same checkpoints. A broker may also stay away for a minute: the
pipeline must wait for it, without falling.

Progress is what a read_committed consumer has seen of the squares. The producer is never far ahead of it, so
that a kill always hits a pipeline with something to do, however slow the machine is. Where a killed driver
was between two batches, the note that the older one is done is taken away from the checkpoints: its successor
does the batch again, and that must change nothing. The long form ends with such a death for certain.

With `delivery=at-least-once` results may come more than once, and everything else must be as it is.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pipelines.cluster import SparkCluster, environment

from torture import HERE, kills
from torture.aftermath import settled_ends
from torture.feeder import Feeder
from torture.judge_pipeline import expected_results, judge_results
from torture.judge_transactions import differences
from torture.kills import Kill
from torture.pipeline import LATENESS, NUMBERS, PARTITIONS, SQUARES, WINDOWS, PipelinePlan
from torture.raw_reading import read_by_hand
from torture.reading import Witness, read_committed
from torture.rounds import Round
from torture.seeds import generator
from torture.spark_checkpoints import Checkpoints, until
from torture.spark_driver import SparkDriver

DRIVER, PYTHON, JAVA, PYTHON_WORKER = "driver", "driver's Python", "driver's JVM", "Python worker"
EXECUTOR, SPARK_WORKER = "executor", "Spark worker"
AWAY = "broker, away for a minute"
AWAY_S = 61.0
EXACTLY_ONCE, AT_LEAST_ONCE = "exactly-once", "at-least-once"
# After these the driver may end by itself; after all others it has to wait, repeat and go on.
EXCUSES = {PYTHON, JAVA, PYTHON_WORKER}
FALLS_MAX = 2
FLUSH = 1_000_000
# Of the producer: progress comes in steps of this size, and all that a step passes is killed at once.
AHEAD_MAX = 1000
# A driver alone takes more than a minute to start on a machine that has three times the work it can do.
STUCK_AFTER_S = 240.0


@dataclass(frozen=True)
class PipelineSize:
    """How much a round does, and who is killed at least once, beside the broker and the driver."""

    records: int
    kills: int
    others: tuple[str, ...]
    app: bool = False
    workers: int = 0
    """Of a cluster; none: the executor is in the driver."""
    repeat: bool = True
    """Whether the last batches are done again when all is over."""
    deliveries: tuple[str, ...] = (EXACTLY_ONCE,)
    """Of which the seed takes one."""


def run(torture: Round, size: PipelineSize) -> str:
    """One round; `size` says whether on a cluster, and whether as an app."""
    victim = torture.victim({})
    victim.start()
    torture.create_topics(PARTITIONS)
    cluster = _cluster(torture, size) if size.workers else None
    try:
        if cluster is not None:
            cluster.start()
        delivery = generator(torture.seed, "delivery").choice(size.deliveries)
        driver = _driver(torture, size, cluster.master if cluster is not None else "local[2,4]", delivery)
        return _Torment(torture, size, driver, cluster, delivery).run()
    finally:
        if cluster is not None:
            cluster.stop()


class _Torment:
    """A pipeline at work, and what is done to it."""

    def __init__(
        self,
        torture: Round,
        size: PipelineSize,
        driver: SparkDriver,
        cluster: SparkCluster | None,
        delivery: str,
    ) -> None:
        self._torture, self._size, self._driver, self._cluster = torture, size, driver, cluster
        self._delivery = delivery
        numbers = [*range(size.records), size.records + FLUSH]
        self._expected = expected_results(numbers, size.records + FLUSH - LATENESS)
        ahead_max = min(size.records // 5, AHEAD_MAX)
        self._checkpoints = Checkpoints(torture.folder / "checkpoints")
        self._witness = Witness(torture.address, {topic: PARTITIONS[topic] for topic in (SQUARES, WINDOWS)})
        self._feeder = Feeder(torture.address, numbers, lambda: self._count(SQUARES), ahead_max)
        self._struck: list[str] = []
        self._falls: list[str] = []
        self._slow_starts: list[str] = []
        self._repeated = 0

    def run(self) -> str:
        """The whole round; a line about it."""
        torture, driver = self._torture, self._driver
        driver.start()
        plan = schedule(generator(torture.seed, "kills"), self._size)
        progress = lambda: self._count(SQUARES)  # noqa: E731
        torture.torment([driver], plan, self._strike, self._finished, progress, stuck_after_s=STUCK_AFTER_S)
        self._feeder.stop()
        excused = sum(who in EXCUSES for who in self._struck)
        if len(self._falls) > excused:
            torture.complain(
                [f"{len(self._falls)} falls of the driver, {excused} excused: {self._falls[-1]}"]
            )
        if self._size.repeat:
            self._repeat_last_batches()
        driver.kill()
        if self._cluster is not None:
            self._cluster.stop()
        self._judge()
        torture.verdict()
        results = ", ".join(f"{len(one)} {topic}" for topic, one in self._expected.items())
        return (
            f"{results}, {self._delivery}; {len(self._struck)} strikes: {', '.join(self._struck)}; "
            f"{len(self._falls)} falls, {self._repeated} batches repeated"
        )

    def _judge(self) -> None:
        torture = self._torture
        ends, hanging = settled_ends(torture.address, PARTITIONS, 90)
        torture.complain(hanging)
        ends = {place: end for place, end in ends.items() if place[0] != NUMBERS}
        targets = {topic: PARTITIONS[topic] for topic in (SQUARES, WINDOWS)}
        seen = read_committed(torture.address, targets, ends)
        torture.complain(judge_results(self._expected, seen, once=self._delivery == EXACTLY_ONCE))
        torture.complain(differences("a witness and a later reading", self._witness.finish(ends), seen))
        by_hand, wrong = read_by_hand(torture.address, ends)
        torture.complain(wrong)
        torture.complain(differences("a client's reading and one by hand", seen, by_hand))

    def _finished(self) -> bool:
        """Whether all results are there; a driver that has ended is started again."""
        self._keep_running()
        wanted = {topic: len(results) for topic, results in self._expected.items()}
        if any(self._count(topic) < count for topic, count in wanted.items()):
            return False
        if self._delivery == EXACTLY_ONCE:
            return True
        found = Counter(topic for topic, _ in {(one.topic, one.value) for one in list(self._witness.seen)})
        return all(found[topic] >= count for topic, count in wanted.items())

    def _keep_running(self) -> None:
        if self._driver.running():
            return
        reason = self._driver.failed() or "the driver has ended"
        (self._slow_starts if self._driver.too_slow() else self._falls).append(reason)
        if len(self._falls) + len(self._slow_starts) > FALLS_MAX + len(self._struck):
            raise kills.Stuck(f"the driver falls and falls: {reason}")
        self._driver.start()

    def _count(self, topic: str) -> int:
        return self._witness.counts.get(topic, 0)

    def _strike(self, kill: Kill) -> None:
        victim, driver, cluster = self._torture.the_victim, self._driver, self._cluster
        if kill.who == AWAY:
            # Not while a driver starts: it may refuse to without a broker.
            before = self._count(SQUARES)
            until(lambda: self._finished() or self._count(SQUARES) > before, STUCK_AFTER_S)
        self._struck.append(kill.who)
        if kill.who in (kills.BROKER, kills.STARTING, AWAY):
            victim.kill()
            if kill.who == kills.STARTING:
                victim.kill_while_starting(0.2 + kill.detail)
            elif kill.who == AWAY:
                time.sleep(AWAY_S + 30 * kill.detail)
            victim.start()
        elif kill.who == DRIVER:
            if not self._size.repeat:
                # Then this is the death after which something must be done again.
                until(self._checkpoints.any_at_rest, STUCK_AFTER_S, pause_s=0.005)
            driver.kill()
            self._repeated += len(self._checkpoints.forget_last_commits())
            driver.start()
        elif kill.who == PYTHON:
            driver.kill_python()
            driver.start()
        elif kill.who == JAVA:
            until(lambda: driver.kill_java() or self._finished(), STUCK_AFTER_S)
        elif kill.who == PYTHON_WORKER:
            until(lambda: driver.kill_worker(kill.detail) or self._finished(), STUCK_AFTER_S)
        elif kill.who == EXECUTOR:
            assert cluster is not None
            # One that was killed before may still be on its way again.
            until(lambda: self._finished() or bool(cluster.executors()), STUCK_AFTER_S)
            executors = cluster.executors()
            if executors:
                os.kill(executors[int(kill.detail * len(executors))], signal.SIGKILL)
            else:
                self._torture.complain(["there is no executor that could be killed"])
        elif kill.who == SPARK_WORKER:
            assert cluster is not None
            number = int(kill.detail * cluster.worker_count)
            cluster.kill_worker(number)
            cluster.start_worker(number)
        else:
            raise ValueError(kill.who)

    def _repeat_last_batches(self) -> None:
        """Let a new driver do the last batch of each query again, although its results are there."""
        checkpoints, driver = self._checkpoints, self._driver
        if not until(checkpoints.at_rest, STUCK_AFTER_S):
            self._torture.complain(["the driver does not come to rest although all results are there"])
            return
        driver.kill()
        forgotten = checkpoints.forget_last_commits()
        self._repeated += len(forgotten)
        driver.start()
        if not until(lambda: self._again(forgotten), STUCK_AFTER_S):
            self._torture.complain(["the last batches are not repeated, and the driver still runs"])

    def _again(self, batches: Mapping[Path, int]) -> bool:
        """Whether these are noted as done; a driver that ends before is a complaint."""
        if self._checkpoints.have(batches):
            return True
        ended = not self._driver.running()
        if ended and self._driver.too_slow():
            self._keep_running()
        elif ended:
            self._torture.complain([f"the last batches are not repeated: {self._driver.failed()}"])
        return ended and not self._driver.running()


def schedule(draw: random.Random, size: PipelineSize) -> list[Kill]:
    """Broker and driver at least once, the size's others too, then any that takes no minute; at random."""
    kinds = [kills.BROKER, DRIVER, *size.others][: size.kills]
    more = [kills.BROKER, kills.STARTING, DRIVER, *(one for one in size.others if one != AWAY)]
    kinds += [draw.choice(more) for _ in range(size.kills - len(kinds))]
    draw.shuffle(kinds)
    moments = sorted(draw.randrange(size.records // 20, size.records * 9 // 10) for _ in kinds)
    return [Kill(at, who, draw.random()) for at, who in zip(moments, kinds, strict=True)]


def _cluster(torture: Round, size: PipelineSize) -> SparkCluster:
    # Two cores together, so that an app gets them all with whatever is there.
    return SparkCluster(torture.folder / "cluster", size.workers, cores=max(1, 2 // size.workers))


def _driver(torture: Round, size: PipelineSize, master: str, delivery: str) -> SparkDriver:
    if size.app:
        arguments = ["-m", "moldau", "streams", "run", str(HERE / "pipeline_app.py"), "--json"]
        arguments += ["--master", master, "--checkpoints", str(torture.folder / "checkpoints")]
        arguments += ["--bootstrap-server", torture.address, "--delivery", delivery]
        arguments += ["--spark", f"spark.local.dir={torture.folder / 'spark'}"]
    else:
        plan = PipelinePlan(torture.address, master, str(torture.folder), delivery)
        arguments = ["-m", "torture.pipeline", plan.to_json()]
    driver = SparkDriver("driver", [sys.executable, *arguments], torture.folder, environment())
    torture.add_client(driver)
    return driver
