"""What a worker tries again: not what is not wanted any more, and no more often however much happens."""

from collections.abc import Sequence
from pathlib import Path
from threading import Event

from worker.fakes import FakeRuntime, alone, eventually

from moldau.services.connect.herder.loop import Loop
from moldau.services.connect.herder.worker import Worker
from moldau.services.connect.stores.configs import Config
from moldau.services.connect.stores.kafka_log import NotWritten


def test_what_the_worker_must_see_to_is_never_refused() -> None:
    loop, done = Loop("busy"), Event()
    seen: list[int] = []
    for number in range(20_000):
        loop.soon(lambda number=number: seen.append(number))  # type: ignore[misc]
    loop.soon(done.set)
    loop.start()
    assert done.wait(30)
    loop.close(5)
    assert seen == list(range(20_000))


def test_tasks_without_their_secrets_wait_once(tmp_path: Path) -> None:
    worker, _ = alone(tmp_path, config_providers="env", **_ENV)
    try:
        missing = {"kind": "source", "tasks": "3", "tasks.max": "3", "password": "${env:PASSWORD}"}
        worker.put_config("c", missing, may_exist=False)
        eventually(lambda: len(worker.ask.task_configs_of("c")) == 3)
        worker._parts.secrets._environment = {}  # the secret is gone
        for task, _ in worker.ask.task_configs_of("c"):
            worker.restart_task(task)
        for number in range(50):
            worker.put_config("d", {"number": str(number)}, may_exist=True)
        waiting = worker._loop.call(lambda: len(worker._loop._calls)).result(30)
        assert waiting < 20
    finally:
        worker.close()


def test_tasks_that_are_not_wanted_any_more_are_not_tried_again(tmp_path: Path) -> None:
    worker, runtime = alone(tmp_path)
    refused: list[Sequence[Config]] = []
    write = worker._task_sets.write

    def refusing(name: str, configs: Sequence[Config]) -> None:
        if any(each.get("part") == "old" for each in configs) and not refused:
            refused.append(configs)
            raise NotWritten("not now")
        write(name, configs)

    try:
        worker.put_config("c", {"tasks": "1"}, may_exist=False)
        eventually(lambda: len(runtime.tasks) == 1)
        worker._task_sets.write = refusing  # type: ignore[method-assign]
        _wants(runtime, "old")
        eventually(lambda: bool(refused))
        _wants(runtime, "new")
        eventually(lambda: _parts(worker) == ["new"])
        # The retry of the old ones is due on the same thread before this.
        worker._loop.call(lambda: None, after_seconds=1.5).result(30)
        assert _parts(worker) == ["new"]
    finally:
        worker.close()


_ENV = {"config_providers_env_class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider"}


def _wants(runtime: FakeRuntime, part: str) -> None:
    assert runtime.listener is not None
    runtime.listener.task_configs("c", [{"part": part}])


def _parts(worker: Worker) -> list[str]:
    return [config["part"] for _, config in worker.ask.task_configs_of("c")]
