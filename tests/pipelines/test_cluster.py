"""On a cluster of a master and two workers: an app that gives what it gives locally, a plain program."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster import SparkCluster, environment, spark_home
from confluent_kafka import Producer
from conftest import spark_missing
from sink_helpers import Row, create_topic, read_topic

from moldau.testing import Broker

HERE = Path(__file__).parent
NUMBERS, PARTITIONS = 500, 3
SMALL = {"spark.executor.memory": "512m", "spark.sql.shuffle.partitions": "2", "spark.cores.max": "2"}
PROGRAM_TIMEOUT_S = 400.0
pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="looks for the cluster's processes in /proc"),
    pytest.mark.timeout(900),
]


@pytest.fixture(scope="module")
def cluster(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[SparkCluster]:
    """A cluster for all tests of the file; its logs are shown if one of them has failed."""
    if reason := spark_missing():
        pytest.skip(reason)
    failed_before = request.session.testsfailed
    running = SparkCluster(tmp_path_factory.mktemp("cluster"))
    try:
        yield running.start()
    finally:
        if request.session.testsfailed > failed_before:
            print(running.logs())
        running.stop()


@pytest.fixture(scope="module")
def numbers(broker: Broker) -> str:
    """The address of a broker whose topic `numbers` has the numbers."""
    create_topic(broker.bootstrap_servers, "numbers", PARTITIONS)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(NUMBERS):
        partition = number % PARTITIONS
        producer.produce("numbers", b'{"n": %d}' % number, b"%d" % number, partition=partition)
    producer.flush(20)
    return broker.bootstrap_servers


def test_app_on_a_cluster_gives_what_it_gives_locally(
    cluster: SparkCluster, numbers: str, tmp_path: Path
) -> None:
    results = {}
    for run, master in (("local", "local[2]"), ("cluster", cluster.master)):
        arguments = [sys.executable, "-m", "moldau", "streams", "run", str(HERE / "cluster_app.py"), "--once"]
        arguments += ["--master", master, "--bootstrap-server", numbers]
        arguments += ["--checkpoints", str(tmp_path / f"checkpoints-{run}")]
        for name, value in SMALL.items():
            arguments += ["--spark", f"{name}={value}"]
        output = run_program(arguments, CLUSTER_APP_RUN=run)
        results[run] = [read(numbers, f"{topic}-{run}") for topic in ("tripled", "windows")]
        assert all(results[run]), output
    assert results["cluster"] == results["local"]
    tripled, windows = results["cluster"]
    assert {key for _, key, _, _ in tripled} == {b"%d" % number for number in range(NUMBERS)}
    assert len(tripled) == NUMBERS
    # A window is out when the watermark, 10 s behind the newest number, has passed its end.
    assert sorted(int(key or b"") for _, key, _, _ in windows) == list(range(0, NUMBERS - 20, 10))
    assert application_count(cluster) == 1, "it has run on the cluster"


def test_plain_pyspark_program_on_a_cluster(cluster: SparkCluster, numbers: str, tmp_path: Path) -> None:
    create_topic(numbers, "upper", 2)
    before = application_count(cluster)
    submit = [str(spark_home() / "bin" / "spark-submit"), "--master", cluster.master]
    for name, value in {**SMALL, "spark.driver.host": "127.0.0.1", "spark.ui.enabled": "false"}.items():
        submit += ["--conf", f"{name}={value}"]
    program = [str(HERE / "cluster_program.py"), numbers, str(tmp_path / "checkpoint"), "upper"]
    output = run_program([*submit, *program])
    assert f"rows: {NUMBERS}, master: {cluster.master}" in output
    values = sorted(value or b"" for _, _, value, _ in read(numbers, "upper"))
    assert values == sorted(b'{"N": %d}' % number for number in range(NUMBERS))
    assert application_count(cluster) == before + 1
    assert cluster.executors() == [], "its executors end with it"


def run_program(arguments: list[str], **more: str) -> str:
    """Run it to its end, which must be a good one; what it printed."""
    done = subprocess.run(
        arguments,
        capture_output=True,
        text=True,
        timeout=PROGRAM_TIMEOUT_S,
        env={**environment(), **more},
        check=False,
    )
    output = f"{done.stdout}\n{done.stderr}"
    assert done.returncode == 0, output
    return output


def read(address: str, topic: str) -> list[Row]:
    """What is committed in a topic of two partitions, in an order that does not depend on tasks."""
    return sorted(read_topic(address, topic, 2), key=lambda row: (row[0], row[1] or b""))


def application_count(cluster: SparkCluster) -> int:
    """How many applications have had executors on the cluster's workers."""
    return len({path.name for path in cluster.folder.glob("worker-*/app-*")})
