"""Offsets change beside the herder's loop: a database that hangs holds nothing else, and nothing comes in
between."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from worker.fakes import NoCluster, NoConnector, alone, eventually

from moldau.connect import ConnectError, TopicPartition
from moldau.services.connect.herder.interface import HerderProblem
from moldau.services.connect.runtime.interface import State
from moldau.services.connect.stores.offsets import KnownOffset

_PLACE = {"kafka_topic": "t", "kafka_partition": 0}


class Hanging:
    """A worker with a stopped sink, whose other side does not answer."""

    def __init__(self, folder: Path) -> None:
        self.connector, self.cluster = NoConnector(), NoCluster()
        self.connector.may_go_on.clear()
        self.worker, self.runtime = alone(folder, self.connector, self.cluster)
        self.worker.put_config("s", {"kind": "sink", "topics": "t"}, may_exist=False, target=State.STOPPED)
        self._pool = ThreadPoolExecutor(1)

    def alter(self) -> Future[str]:
        """It hangs when this returns."""
        asked = self._pool.submit(self.worker.alter_offsets, "s", [KnownOffset(_PLACE, {"kafka_offset": 7})])
        assert self.connector.waits.wait(30)
        return asked

    def close(self) -> None:
        self.connector.may_go_on.set()
        self._pool.shutdown()
        self.worker.close()


@pytest.fixture
def hanging(tmp_path: Path) -> Iterator[Hanging]:
    made = Hanging(tmp_path)
    yield made
    made.close()


def test_nothing_else_waits_for_a_database_that_hangs(hanging: Hanging) -> None:
    asked = hanging.alter()
    hanging.worker.put_config("c", {"tasks": "1"}, may_exist=False)
    eventually(lambda: len(hanging.runtime.tasks) == 1)
    assert hanging.worker._loop.busy_seconds < 1
    assert not asked.done()
    hanging.connector.may_go_on.set()
    assert "altered successfully" in asked.result(30)
    assert hanging.cluster.groups == {"connect-s": {("t", 0): 7}}


def test_what_is_being_changed_is_not_resumed_nor_changed_twice(hanging: Hanging) -> None:
    asked = hanging.alter()
    for refused in (
        lambda: hanging.worker.set_target("s", State.RUNNING),
        lambda: hanging.worker.put_config("s", {"kind": "sink", "topics": "u"}, may_exist=True),
        lambda: hanging.worker.reset_offsets("s"),
    ):
        with pytest.raises(HerderProblem, match="are being changed") as problem:
            refused()
        assert problem.value.status == 409
    hanging.connector.may_go_on.set()
    asked.result(30)
    hanging.worker.set_target("s", State.RUNNING)


def test_a_connector_of_the_same_name_keeps_its_offsets(hanging: Hanging) -> None:
    asked = hanging.alter()
    hanging.worker.delete("s")
    hanging.connector.may_go_on.set()
    with pytest.raises(HerderProblem, match="left as they are"):
        asked.result(30)
    assert hanging.cluster.groups == {}


def test_a_change_that_takes_too_long_has_no_effect_on_the_group(
    hanging: Hanging, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hanging.worker._changes, "_wait_seconds", 0.2)
    with pytest.raises(HerderProblem, match="does its other side answer"):
        hanging.alter().result(30)
    hanging.connector.may_go_on.set()
    eventually(lambda: not hanging.worker._changes._running)
    assert hanging.cluster.groups == {}
    hanging.worker.set_target("s", State.RUNNING)


def test_a_reset_covers_what_the_group_has_forgotten(tmp_path: Path) -> None:
    connector, cluster = NoConnector(), NoCluster()
    cluster.topics = {"t": 2, "u-1": 1, "other": 1}
    cluster.groups = {"connect-s": {("gone", 3): 5}}
    worker, _ = alone(tmp_path, connector, cluster)
    try:
        config = {"kind": "sink", "topics": "t", "topics.regex": "u-.*"}
        worker.put_config("s", config, may_exist=False, target=State.STOPPED)
        worker.reset_offsets("s")
        wanted = [("gone", 3), ("t", 0), ("t", 1), ("u-1", 0)]
        assert connector.positions_set == [dict.fromkeys(TopicPartition(*each) for each in wanted)]
        assert cluster.groups == {}
    finally:
        worker.close()


@pytest.mark.parametrize("failure", [ConnectError, ValueError])
def test_what_the_other_side_says_has_no_secret_in_it(
    tmp_path: Path, failure: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    connector = NoConnector()

    def refuses(positions: object) -> None:
        raise failure("no login with hush at db://me:whisper@there, nor with murmur")

    monkeypatch.setattr(connector, "set_positions", refuses)
    worker, _ = alone(
        tmp_path,
        connector,
        config_providers="env",
        config_providers_env_class="org.apache.kafka.common.config.provider.EnvVarConfigProvider",
    )
    config = {
        "kind": "sink", "topics": "t", "login": "${env:PASSWORD}", "url": "db://me:whisper@there",
        "password": "murmur",
    }  # fmt: skip
    try:
        worker.put_config("s", config, may_exist=False, target=State.STOPPED)
        with pytest.raises(HerderProblem, match="no login with") as problem:
            worker.alter_offsets("s", [KnownOffset(_PLACE, {"kafka_offset": 7})])
        assert not [each for each in ("hush", "whisper", "murmur") if each in str(problem.value)]
    finally:
        worker.close()
