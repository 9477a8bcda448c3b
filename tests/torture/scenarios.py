"""The scenarios by name, short (for the test suite) and long."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from torture import (
    cluster_moves,
    cluster_partitions,
    round_cluster,
    round_cluster_pipeline,
    round_compaction,
    round_fresh,
    round_loop,
    round_pipeline,
    round_simulation,
    round_transactions,
)
from torture.cluster_faults import (
    CUT,
    DISK,
    ENSEMBLE,
    EVERYBODY,
    KILL,
    MAJORITY,
    MEMBER,
    MEMBERS,
    PAUSE,
    STOP,
)
from torture.cluster_moves import CANCEL, MOVE
from torture.cluster_partitions import ISOLATE, SLOW
from torture.cluster_upgrade import UPGRADE
from torture.round_cluster import ROLLING, ClusterSize
from torture.round_cluster_pipeline import ClusterPipelineSize
from torture.round_compaction import CompactionSize
from torture.round_loop import LoopSize
from torture.round_pipeline import (
    AT_LEAST_ONCE,
    AWAY,
    EXACTLY_ONCE,
    EXECUTOR,
    JAVA,
    PYTHON,
    PYTHON_WORKER,
    SPARK_WORKER,
    PipelineSize,
)
from torture.round_transactions import Size
from torture.rounds import Round


class Scenario(NamedTuple):
    """How to run it; each returns one line about what happened, or raises `Failure`."""

    short: Callable[[Round], str]
    long: Callable[[Round], str]


def _transactions(size: Size, kill_clients: bool) -> Callable[[Round], str]:
    return lambda torture: round_transactions.run(torture, size, kill_clients=kill_clients)


def _loop(size: LoopSize, protocol: str) -> Callable[[Round], str]:
    return lambda torture: round_loop.run(torture, size, protocol)


def _compaction(size: CompactionSize) -> Callable[[Round], str]:
    return lambda torture: round_compaction.run(torture, size)


def _fresh(kills: int) -> Callable[[Round], str]:
    return lambda torture: round_fresh.run(torture, kills)


def _pipeline(size: PipelineSize) -> Callable[[Round], str]:
    return lambda torture: round_pipeline.run(torture, size)


def _cluster(size: ClusterSize) -> Callable[[Round], str]:
    return lambda torture: round_cluster.run(torture, size)


def _cluster_pipeline(size: ClusterPipelineSize) -> Callable[[Round], str]:
    return lambda torture: round_cluster_pipeline.run(torture, size)


def _simulation(seeds: int) -> Callable[[Round], str]:
    return lambda torture: round_simulation.run(torture, seeds)


_SIZES = (Size(2, 20, 3), Size(4, 150, 8))
_LOOPS = (LoopSize(500, 2, 3), LoopSize(6000, 3, 10))
_COMPACTIONS = (CompactionSize(40, 20, 800, 3), CompactionSize(200, 60, 6000, 10))
_HERE, _THERE = (PYTHON, JAVA, PYTHON_WORKER, AWAY), (EXECUTOR, SPARK_WORKER, PYTHON)
_EITHER = (EXACTLY_ONCE, EXACTLY_ONCE, AT_LEAST_ONCE)
_PIPELINES = (PipelineSize(2000, 2, ()), PipelineSize(30_000, 12, _HERE, deliveries=_EITHER))
_APPS = (
    PipelineSize(2000, 3, (PYTHON,), app=True),
    PipelineSize(30_000, 12, _HERE, app=True, deliveries=_EITHER),
)
_CLUSTERS = (
    PipelineSize(2000, 3, (EXECUTOR,), app=True, workers=1, repeat=False),
    PipelineSize(30_000, 12, _THERE, app=True, workers=2),
)

# A leader dies, a broker is stopped in order and comes back.
_ONE_EACH = (("write", 1), ("transact", 1), ("copy", 1), ("read", 1))
_SHORT = ClusterSize((KILL, STOP), longest_s=3, clients=_ONE_EACH)

SCENARIOS: dict[str, Scenario] = {
    "transactions": Scenario(*(_transactions(size, False) for size in _SIZES)),
    "dying-producers": Scenario(*(_transactions(size, True) for size in _SIZES)),
    "copy-classic": Scenario(*(_loop(size, "classic") for size in _LOOPS)),
    "copy-consumer": Scenario(*(_loop(size, "consumer") for size in _LOOPS)),
    "compaction": Scenario(*map(_compaction, _COMPACTIONS)),
    "fresh-start": Scenario(*map(_fresh, (3, 3))),
    "pipeline": Scenario(*map(_pipeline, _PIPELINES)),
    "pipeline-app": Scenario(*map(_pipeline, _APPS)),
    "pipeline-cluster": Scenario(*map(_pipeline, _CLUSTERS)),
    "cluster-kills": Scenario(_cluster(_SHORT), _cluster(ClusterSize((KILL,), 12, longest_s=8))),
    "cluster-everybody": Scenario(
        _cluster(ClusterSize((EVERYBODY,), longest_s=1, clients=_ONE_EACH)),
        _cluster(ClusterSize((EVERYBODY, KILL, EVERYBODY), longest_s=8)),
    ),
    "cluster-secured": Scenario(
        _cluster(ClusterSize((KILL, STOP), longest_s=3, clients=_ONE_EACH, secured=True)),
        _cluster(ClusterSize((KILL, STOP, PAUSE), 12, longest_s=20, secured=True)),
    ),
    "cluster-pauses": Scenario(
        _cluster(ClusterSize((PAUSE,), longest_s=6)), _cluster(ClusterSize((PAUSE,), 6, longest_s=40))
    ),
    "cluster-zookeeper": Scenario(
        _cluster(ClusterSize((MEMBER, MAJORITY), longest_s=6, zookeepers=3)),
        _cluster(ClusterSize((MEMBERS, ENSEMBLE, MAJORITY), longest_s=60, zookeepers=3)),
    ),
    "cluster-rolling": Scenario(
        _cluster(ClusterSize((ROLLING,), longest_s=1)), _cluster(ClusterSize((ROLLING,) * 3, longest_s=1))
    ),
    "cluster-cut": Scenario(
        _cluster(ClusterSize((CUT,), longest_s=6)), _cluster(ClusterSize((CUT,), 6, longest_s=40))
    ),
    "cluster-network": Scenario(
        _cluster(ClusterSize((ISOLATE, SLOW), longest_s=6)),
        _cluster(ClusterSize(cluster_partitions.KINDS, 8, longest_s=40, clients=_ONE_EACH, java=True)),
    ),
    "cluster-java": Scenario(
        _cluster(ClusterSize((KILL, STOP), longest_s=3, clients=_ONE_EACH, java=True)),
        _cluster(ClusterSize((KILL, STOP, PAUSE), 8, longest_s=12, clients=_ONE_EACH, java=True)),
    ),
    "cluster-moves": Scenario(
        _cluster(ClusterSize((MOVE, CANCEL), longest_s=3, brokers=4)),
        _cluster(ClusterSize(cluster_moves.KINDS, 8, longest_s=8, brokers=4, clients=_ONE_EACH, java=True)),
    ),
    "cluster-upgrade": Scenario(
        _cluster(ClusterSize((UPGRADE,), longest_s=3)),
        _cluster(ClusterSize((KILL, UPGRADE, KILL, STOP), longest_s=8)),
    ),
    "cluster-disk": Scenario(
        _cluster(ClusterSize((DISK,), longest_s=4)), _cluster(ClusterSize((DISK,) * 3, longest_s=20))
    ),
    "cluster-all": Scenario(
        _cluster(ClusterSize((KILL, STOP, PAUSE), 2, longest_s=6)),
        _cluster(ClusterSize((KILL, STOP, PAUSE, MEMBER, ENSEMBLE), 15, longest_s=20, zookeepers=3)),
    ),
    "cluster-pipeline": Scenario(
        _cluster_pipeline(ClusterPipelineSize(3000, (KILL,), longest_s=15)),
        _cluster_pipeline(
            ClusterPipelineSize(30_000, (KILL, KILL, STOP, PAUSE, KILL), longest_s=20, app=True)
        ),
    ),
    "simulation": Scenario(_simulation(6), _simulation(500)),
}
DURABILITIES = ("os", "group")


def durability(kind: str, choice: str) -> dict[str, str]:
    """Moldau's own setting; a process that is killed loses nothing with either."""
    return {"moldau.durability": choice} if kind == "moldau" else {}
