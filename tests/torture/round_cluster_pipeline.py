"""Scenario: a Spark pipeline writes every result exactly once, while brokers of a cluster die under it.

The pipeline of pipeline.py, or of pipeline_app.py, on three brokers whose topics have three replicas. A
broker that leads something is killed (kill -9), paused or stopped in order while the pipeline has work to
do, stays away for a while, and comes back. The driver must go through all of it: its fall is a failure. In
the end every result is there, is right, and is there once (judge_pipeline.py), and the replicas are equal
byte for byte.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

from pipelines.cluster import environment

from moldau.testing import Cluster
from torture import HERE
from torture.cluster_faults import Faults
from torture.cluster_judge import judge_replicas
from torture.cluster_record import Recorder
from torture.feeder import Feeder
from torture.judge_pipeline import expected_results, judge_results
from torture.judge_transactions import differences
from torture.pipeline import LATENESS, PARTITIONS, SQUARES, WINDOWS, PipelinePlan
from torture.reading import Witness, read_committed
from torture.round_cluster import CLUSTER_SETTINGS, settled_ends
from torture.round_pipeline import AHEAD_MAX, FLUSH, STUCK_AFTER_S
from torture.rounds import Failure, Round
from torture.seeds import generator
from torture.spark_driver import SparkDriver

OUTPUTS = {topic: PARTITIONS[topic] for topic in (SQUARES, WINDOWS)}
POLL_S = 0.02


@dataclass(frozen=True)
class ClusterPipelineSize:
    """How many numbers, and what is done to brokers while they are squared, in this order."""

    records: int
    faults: tuple[str, ...]
    longest_s: float
    app: bool = False


def run(torture: Round, size: ClusterPipelineSize) -> str:
    """Returns one line about what happened; raises Failure with all complaints."""
    if torture.kind != "moldau":
        return "skipped: starts a cluster of Moldau"
    with ExitStack() as stack:
        settings = {**CLUSTER_SETTINGS, **torture.settings}
        cluster = Cluster(3, settings, data=torture.folder / "cluster")
        stack.callback(cluster.stop)
        cluster.start()
        for name, count in PARTITIONS.items():
            cluster.create_topic(name, count)
        recorder = Recorder(torture.folder / "harness.history")
        stack.callback(recorder.close)
        draw = generator(torture.seed, "faults")
        # Two brokers lead this topic's partitions, and it may be either of them.
        faults = Faults(cluster, SQUARES, recorder, draw, longest_s=size.longest_s)
        driver = _driver(torture, size, cluster.bootstrap_servers)
        stack.callback(driver.kill)
        results = _torment(torture, size, cluster, faults, driver, stack)
    if torture.complaints:
        shown = "\n  ".join(torture.complaints[:25])
        raise Failure(f"seed {torture.seed}, {faults.done}, {torture.folder}:\n  {shown}")
    return f"{results}, each once; {', '.join(faults.done)}"


def _torment(
    torture: Round,
    size: ClusterPipelineSize,
    cluster: Cluster,
    faults: Faults,
    driver: SparkDriver,
    stack: ExitStack,
) -> str:
    address = cluster.bootstrap_servers
    numbers = [*range(size.records), size.records + FLUSH]
    expected = expected_results(numbers, size.records + FLUSH - LATENESS)
    witness = Witness(address, OUTPUTS)
    count = lambda: witness.counts[SQUARES]  # noqa: E731
    feeder = Feeder(address, numbers, count, min(size.records // 5, AHEAD_MAX))
    stack.callback(feeder.stop)
    driver.start()
    draw = generator(torture.seed, "moments")
    moments = sorted(draw.randrange(size.records // 20, size.records * 8 // 10) for _ in size.faults)
    for moment, kind in zip(moments, size.faults, strict=True):
        _wait(driver, count, lambda moment=moment: count() >= moment)  # type: ignore[misc]
        faults.strike(kind)
        cluster.wait_until_in_sync()
    done = lambda: all(witness.counts[topic] >= len(one) for topic, one in expected.items())  # noqa: E731
    _wait(driver, count, done)
    feeder.stop()
    driver.kill()
    ends = settled_ends(torture, cluster, OUTPUTS)
    seen = read_committed(address, OUTPUTS, ends)
    torture.complain(judge_results(expected, seen))
    torture.complain(differences("a witness and a later reading", witness.finish(ends), seen))
    for node in cluster.node_ids:
        cluster.stop(node)
    folders = {node: cluster.log_folder(node) for node in cluster.node_ids}
    places = [(topic, number) for topic, partitions in PARTITIONS.items() for number in range(partitions)]
    torture.complain(judge_replicas(folders, places))
    return ", ".join(f"{len(one)} {topic}" for topic, one in expected.items())


def _wait(driver: SparkDriver, progress: Callable[[], int], condition: Callable[[], bool]) -> None:
    """Until the condition holds. Failure if the driver falls, or nothing moves for long."""
    last, moved_at = -1, time.monotonic()
    while not condition():
        if not driver.running():
            raise Failure(f"the driver has fallen: {driver.failed()}")
        now = progress()
        if now != last:
            last, moved_at = now, time.monotonic()
        if time.monotonic() - moved_at > STUCK_AFTER_S:
            raise Failure(f"no result beyond {now} for {STUCK_AFTER_S:.0f} s: see {driver.log}")
        time.sleep(POLL_S)


def _driver(torture: Round, size: ClusterPipelineSize, address: str) -> SparkDriver:
    folder = torture.folder
    if size.app:
        arguments = ["-m", "moldau", "streams", "run", str(HERE / "pipeline_app.py"), "--json"]
        arguments += ["--master", "local[2]", "--checkpoints", str(folder / "checkpoints")]
        arguments += ["--bootstrap-server", address, "--spark", f"spark.local.dir={folder / 'spark'}"]
    else:
        arguments = ["-m", "torture.pipeline", PipelinePlan(address, "local[2]", str(folder)).to_json()]
    driver = SparkDriver("driver", [sys.executable, *arguments], folder, environment())
    torture.add_client(driver)
    return driver
