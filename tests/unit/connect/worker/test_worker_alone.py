"""A worker's operations, on a runtime that runs nothing."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Event, current_thread

import pytest
from worker.fakes import FakeRuntime, alone, eventually

from moldau.services.connect.herder.facade import RestHerder
from moldau.services.connect.herder.interface import HerderProblem, Signature
from moldau.services.connect.herder.worker import Worker
from moldau.services.connect.runtime.interface import State, Status, TaskId
from moldau.services.connect.stores.configs import Config, RestartAsked, target_record, task_records
from moldau.services.connect.stores.offsets import KnownOffset


@pytest.fixture
def running(tmp_path: Path) -> Iterator[tuple[Worker, FakeRuntime]]:
    worker, runtime = alone(
        tmp_path,
        config_providers="env",
        config_providers_env_class="org.apache.kafka.common.config.provider.EnvVarConfigProvider",
    )
    yield worker, runtime
    worker.close()


def states(worker: Worker, name: str) -> list[State]:
    return [each.state for each in worker.ask.states(name).values()]


def test_a_connector_is_made_changed_and_deleted(running: tuple[Worker, FakeRuntime]) -> None:
    worker, runtime = running
    created, info = worker.put_config("c", {"tasks": "2", "tasks.max": "2"}, may_exist=False)
    assert created
    assert info.config == {"tasks": "2", "tasks.max": "2"}
    eventually(lambda: len(runtime.tasks) == 2)
    assert runtime.tasks[TaskId("c", 1)] == {"tasks": "2", "tasks.max": "2", "part": "1"}
    assert states(worker, "c") == [State.RUNNING] * 3
    with pytest.raises(HerderProblem, match="Connector c already exists"):
        worker.put_config("c", {}, may_exist=False)
    created, _ = worker.put_config("c", {"tasks": "1", "x": "y"}, may_exist=True)
    assert not created
    eventually(lambda: runtime.tasks == {TaskId("c", 0): {"tasks": "1", "x": "y", "part": "0"}})
    eventually(lambda: len(worker.ask.status("c").tasks) == 1)
    worker.delete("c")
    eventually(lambda: not runtime.tasks and not runtime.connectors)
    for ask in (worker.ask.info, worker.ask.status, worker.delete, worker.ask.offsets):
        with pytest.raises(HerderProblem):
            ask("c")
    assert worker.ask.connectors() == []


def test_pausing_stopping_and_resuming(running: tuple[Worker, FakeRuntime]) -> None:
    worker, runtime = running
    worker.put_config("c", {"tasks": "1"}, may_exist=False)
    eventually(lambda: len(runtime.tasks) == 1)
    worker.set_target("c", State.PAUSED)
    eventually(lambda: states(worker, "c") == [State.PAUSED, State.PAUSED])
    worker.set_target("c", State.STOPPED)
    eventually(lambda: not runtime.tasks)
    assert runtime.connectors
    eventually(lambda: states(worker, "c") == [State.STOPPED])
    worker.set_target("c", State.RUNNING)
    eventually(lambda: len(runtime.tasks) == 1)
    eventually(lambda: states(worker, "c") == [State.RUNNING, State.RUNNING])


def test_a_connector_may_begin_stopped(running: tuple[Worker, FakeRuntime]) -> None:
    worker, runtime = running
    worker.put_config("c", {"tasks": "1"}, may_exist=False, target=State.STOPPED)
    eventually(lambda: "c" in runtime.connectors)
    assert runtime.targets["c"] is State.STOPPED
    assert not runtime.tasks


def test_only_what_failed_is_restarted_if_that_is_asked(running: tuple[Worker, FakeRuntime]) -> None:
    worker, runtime = running
    worker.put_config("c", {"tasks": "2", "tasks.max": "2"}, may_exist=False)
    eventually(lambda: len(runtime.tasks) == 2)
    runtime.fail(TaskId("c", 1), "no space\nTraceback")
    runtime.started.clear()
    found = worker.restart(RestartAsked("c", include_tasks=True, only_failed=True))
    assert [each.status.state for each in found.tasks.values()] == [State.RUNNING, State.RESTARTING]
    eventually(lambda: runtime.started == [TaskId("c", 1)])
    worker.restart_connector("c")
    worker.restart_task(TaskId("c", 0))
    eventually(lambda: runtime.started == [TaskId("c", 1), "c", TaskId("c", 0)])
    with pytest.raises(HerderProblem, match="Unknown task: c-7"):
        worker.restart_task(TaskId("c", 7))
    with pytest.raises(HerderProblem, match="Unknown connector: d"):
        worker.restart_connector("d")


def test_secrets_reach_the_runtime_and_nobody_else(running: tuple[Worker, FakeRuntime]) -> None:
    worker, runtime = running
    worker.put_config("c", {"tasks": "1", "password": "${env:PASSWORD}"}, may_exist=False)
    eventually(lambda: len(runtime.tasks) == 1)
    assert runtime.connectors["c"]["password"] == "hush"
    assert runtime.tasks[TaskId("c", 0)]["password"] == "hush"
    assert worker.ask.info("c").config["password"] == "${env:PASSWORD}"
    assert worker.ask.task_configs_of("c")[0][1]["password"] == "${env:PASSWORD}"
    runtime.fail(TaskId("c", 0), "Error: cannot reach db://me:hush@host")
    assert worker.ask.status("c").tasks[0].status.trace == "Error: cannot reach db://me:[hidden]@host"
    assert runtime.listener is not None
    moved = Status(
        State.RUNNING, engine="local", engine_why="auto: it failed on Spark 3 times: hush is wrong"
    )
    runtime.listener.task_status(TaskId("c", 0), moved)
    assert "[hidden] is wrong" in worker.ask.status("c").tasks[0].status.engine_why


def test_a_secret_that_is_not_there_fails_the_connector_with_its_name(
    running: tuple[Worker, FakeRuntime],
) -> None:
    worker, runtime = running
    worker.put_config("c", {"password": "${env:NONE}"}, may_exist=False)
    eventually(lambda: worker.ask.connectors() == ["c"] and states(worker, "c") == [State.FAILED])
    assert "there is no environment variable NONE" in worker.ask.status("c").connector.status.trace
    assert not runtime.connectors


def test_more_tasks_than_allowed_are_refused(running: tuple[Worker, FakeRuntime]) -> None:
    worker, runtime = running
    worker.put_config("c", {"tasks": "3", "tasks.max": "2"}, may_exist=False)
    eventually(lambda: states(worker, "c") == [State.FAILED])
    assert "generated 3 tasks, which is greater than 2" in worker.ask.status("c").connector.status.trace
    worker.put_config("c", {"tasks": "3", "tasks.max": "2", "tasks.max.enforce": "false"}, may_exist=True)
    eventually(lambda: len(runtime.tasks) == 3)


def test_offsets_change_only_of_stopped_connectors(running: tuple[Worker, FakeRuntime]) -> None:
    worker, runtime = running
    worker.put_config("c", {"tasks": "1"}, may_exist=False)
    eventually(lambda: len(runtime.tasks) == 1)
    wanted = [KnownOffset({"file": "/x"}, {"position": 3})]
    with pytest.raises(HerderProblem, match="'/connectors/c/stop' endpoint") as refused:
        worker.alter_offsets("c", wanted)
    assert refused.value.status == 400
    worker.set_target("c", State.STOPPED)
    assert "altered successfully" in worker.alter_offsets("c", wanted)
    assert [(each.partition, each.offset) for each in worker.ask.offsets("c")] == [
        ({"file": "/x"}, {"position": 3})
    ]
    assert "reset successfully" in worker.reset_offsets("c")
    assert worker.ask.offsets("c") == []


def test_offsets_of_sinks_are_those_of_their_group(running: tuple[Worker, FakeRuntime]) -> None:
    worker, _ = running
    worker.put_config("s", {"kind": "sink"}, may_exist=False, target=State.STOPPED)
    place = {"kafka_topic": "t", "kafka_partition": 0}
    worker.alter_offsets("s", [KnownOffset(place, {"kafka_offset": 7})])
    assert [(each.partition, each.offset) for each in worker.ask.offsets("s")] == [
        (place, {"kafka_offset": 7})
    ]
    for partition, offset in (({}, None), (place, {}), (place, {"kafka_offset": "x"})):
        with pytest.raises(HerderProblem, match=r"kafka_|Failed to parse"):
            worker.alter_offsets("s", [KnownOffset(partition, offset)])
    worker.reset_offsets("s")
    assert worker.ask.offsets("s") == []


def test_no_class_is_looked_for_on_the_thread_that_answers(
    running: tuple[Worker, FakeRuntime], monkeypatch: pytest.MonkeyPatch
) -> None:
    worker, _ = running
    worker.put_config("c", {"tasks": "1"}, may_exist=False)
    eventually(lambda: len(worker.ask.states("c")) == 2)
    threads: set[str] = set()

    def kind_of(config: Config) -> str:
        threads.add(current_thread().name)
        return "source"

    monkeypatch.setattr(worker.ask, "_parts", replace(worker._parts, kind_of=kind_of))
    herder = RestHerder(worker, worker._settings, lambda: "")

    async def ask() -> None:
        assert (await herder.info("c")).kind == (await herder.status("c")).kind == "source"
        assert herder.health().failed == {}

    asyncio.run(ask())
    herder.close()
    assert threads
    assert current_thread().name not in threads


def test_how_connectors_are_is_told_while_requests_wait_for_kafka(
    running: tuple[Worker, FakeRuntime], monkeypatch: pytest.MonkeyPatch
) -> None:
    worker, _ = running
    worker.put_config("c", {"tasks": "1"}, may_exist=False)
    eventually(lambda: len(worker.ask.states("c")) == 2)
    kafka_is_back = Event()
    monkeypatch.setattr(worker, "put_config", lambda *_, **__: kafka_is_back.wait(120))
    herder = RestHerder(worker, worker._settings, lambda: "")

    async def ask() -> None:
        waiting = [
            asyncio.ensure_future(herder.put_config(f"d{each}", {}, None, may_replace=True))
            for each in range(40)
        ]
        try:
            assert (await asyncio.wait_for(herder.status("c"), 30)).tasks
            assert (await asyncio.wait_for(herder.info("c"), 30)).name == "c"
        finally:
            kafka_is_back.set()
            await asyncio.gather(*waiting)

    asyncio.run(ask())
    herder.close()


def test_nobody_sets_the_tasks_of_a_worker_without_a_group(running: tuple[Worker, FakeRuntime]) -> None:
    worker, runtime = running
    worker.put_config("c", {"tasks": "1"}, may_exist=False)
    eventually(lambda: len(runtime.tasks) == 1)
    for ask in (
        lambda: worker.put_tasks("c", [{"file": "/etc/passwd"}], Signature(b"", None, None)),
        lambda: worker.fence("c", Signature(b"", None, None)),
    ):
        with pytest.raises(HerderProblem) as refused:
            ask()
        assert refused.value.status == 500
    assert "file" not in worker.ask.task_configs_of("c")[0][1]


def test_a_connector_that_wants_no_tasks_any_more_has_none(running: tuple[Worker, FakeRuntime]) -> None:
    worker, runtime = running
    worker.put_config("c", {"tasks": "2", "tasks.max": "2"}, may_exist=False)
    eventually(lambda: len(runtime.tasks) == 2)
    assert runtime.listener is not None
    runtime.listener.task_configs("c", [])
    eventually(lambda: not runtime.tasks)
    assert worker.ask.task_configs_of("c") == []
    runtime.listener.task_configs("c", [{"part": "0"}])
    eventually(lambda: len(runtime.tasks) == 1)


def test_a_stop_that_is_taken_back_at_once_leaves_the_tasks(running: tuple[Worker, FakeRuntime]) -> None:
    worker, runtime = running
    worker.put_config("c", {"tasks": "1"}, may_exist=False)
    eventually(lambda: len(runtime.tasks) == 1)

    def both() -> None:  # on the loop: it sees the second one alone
        stores = worker._stores
        stores.write_configs([target_record("c", State.STOPPED), *task_records("c", [])], as_leader=True)
        stores.write_configs([target_record("c", State.RUNNING)], as_leader=False)

    worker._loop.call(both).result(30)
    eventually(lambda: len(worker.ask.task_configs_of("c")) == 1 and len(runtime.tasks) == 1)
