"""`moldau connect` against a real HTTP server with the REST interface on a herder in memory."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from memory_herder import SINK, SOURCE, MemoryHerder, Served

from moldau.services.connect.herder.interface import OffsetRow
from moldau.services.connect.runtime.interface import State
from moldau.services.http.connections import ConnectionLimits
from moldau.services.http.server import HttpServer, ServerThread
from moldau.services.http.settings import listeners_of
from moldau.tools.app import run
from moldau.tools.commands.connect.offsets import parse_offsets
from moldau.tools.shared.errors import UsageError

Typed = Callable[..., tuple[int, str, str]]


@pytest.fixture
def herder() -> MemoryHerder:
    return MemoryHerder()


@pytest.fixture
def typed(
    herder: MemoryHerder, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Typed]:
    """Runs a command line; exit code, standard output, standard error."""

    @asynccontextmanager
    async def serving() -> AsyncIterator[HttpServer]:
        limits = ConnectionLimits(
            head_bytes_max=16_384, head_seconds=10, idle_seconds=30, send_seconds=30, connections_max=100
        )
        listeners = listeners_of(("http://127.0.0.1:0",), 0)
        server = HttpServer(
            Served(herder).application, listeners, tls=None, limits=limits, graceful_seconds=1
        )
        await server.start()
        try:
            yield server
        finally:
            await server.stop()

    thread = ServerThread(serving, "connect-test")
    thread.start()
    monkeypatch.setenv("MOLDAU_CONNECT", thread.served.url)

    def type_it(*words: str) -> tuple[int, str, str]:
        code = run(["connect", *words])
        said = capsys.readouterr()
        return code, said.out, said.err

    try:
        yield type_it
    finally:
        thread.stop()


def test_a_connector_is_made_shown_and_removed(typed: Typed, herder: MemoryHerder, tmp_path: Path) -> None:
    herder.task_state = State.RUNNING
    file = tmp_path / "c.json"
    file.write_text(json.dumps({"name": "c", "config": {"connector.class": SINK, "topics": "t"}}))
    code, _, error = typed("create", "--file", str(file), "-c", "tasks.max=2")
    assert (code, error) == (0, "connector c (sink) is configured\nc is RUNNING with 1 task\n")
    assert herder.configs["c"]["tasks.max"] == "2"
    assert typed("list")[1].splitlines()[1].split()[:4] == ["c", "sink", "RUNNING", "1/1"]
    assert "tasks.max" in typed("config", "c")[1]
    assert typed("delete", "c")[0] == 0
    assert "there are no connectors" in typed("list")[2]
    code, _, error = typed("status", "c")
    assert (code, "Connector c not found (404)" in error, "Traceback" in error) == (1, True, False)


def test_properties_and_changes(typed: Typed, herder: MemoryHerder, tmp_path: Path) -> None:
    herder.task_state = State.RUNNING
    file = tmp_path / "c.properties"
    file.write_text(f"name=c\nconnector.class={SINK}\ntopics=t\n")
    assert typed("create", "--file", str(file))[0] == 0
    code, _, error = typed("create", "--file", str(file))
    assert (code, "already exists (409)" in error) == (1, True)
    assert typed("create", "--file", str(file), "-c", "topics=u", "--replace")[0] == 0
    assert herder.configs["c"]["topics"] == "u"


def test_a_task_that_fails_is_told_with_its_cause(typed: Typed, herder: MemoryHerder) -> None:
    code, _, error = typed("create", "c", "-c", f"connector.class={SINK}", "-c", "topics=t")
    assert (code, "c: task 0 has failed: it broke" in error) == (1, True)
    code, out, error = typed("status", "c")
    assert (code, "FAILED" in out, "task 0 failed: it broke" in error) == (1, True, True)
    assert "it broke" in typed("list")[1]


def test_what_is_wrong_is_listed(typed: Typed) -> None:
    code, out, _ = typed("validate", "-c", f"connector.class={SOURCE}", "-c", "mode=middling")
    assert (code, "url" in out, "mode" in out) == (1, True, True)
    code, _, error = typed("validate", "-c", f"connector.class={SOURCE}", "-c", "url=x")
    assert (code, error) == (0, "the configuration is right\n")
    assert typed("validate", "-c", "url=x")[0] == 2


def test_states_and_restarts(typed: Typed, herder: MemoryHerder) -> None:
    herder.task_state = State.RUNNING
    typed("create", "c", "-c", f"connector.class={SINK}", "-c", "topics=t")
    herder.task_state = State.PAUSED
    assert typed("pause", "c")[0] == 0
    assert herder.targets["c"] is State.PAUSED
    herder.task_state = None
    assert typed("stop", "c")[0] == 0
    herder.task_state = State.RUNNING
    assert typed("resume", "c")[0] == 0
    assert typed("restart", "c")[0] == 0
    assert typed("restart", "c", "--only-failed")[0] == 0
    assert typed("restart", "c", "--task", "0")[0] == 0
    assert typed("restart", "c", "--connector-only")[0] == 0
    assert herder.asked[:2] == [("restart", False, True), ("restart", True, True)]


def test_offsets(typed: Typed, herder: MemoryHerder) -> None:
    herder.task_state = State.RUNNING
    typed("create", "c", "-c", f"connector.class={SINK}", "-c", "topics=t")
    code, _, error = typed("offsets", "c", "--set", "t:0=5")
    assert (code, "STOPPED" in error) == (1, True)
    herder.targets["c"] = State.STOPPED
    assert '{"kafka_offset": 5}' in typed("offsets", "c", "--set", "t:0=5")[1]
    assert herder.rows["c"] == [OffsetRow({"kafka_topic": "t", "kafka_partition": 0}, {"kafka_offset": 5})]
    assert typed("offsets", "c", "--set", "t:0=5", "--reset")[0] == 2
    assert "has no offsets" in typed("offsets", "c", "--reset")[2]


def test_plugins(typed: Typed) -> None:
    assert "HttpSink" in typed("plugins")[1]
    assert "http.api.url" in typed("plugins", "HttpSink")[1]
    assert json.loads(typed("plugins", "--json")[1])[0].keys() == {"class", "type", "version"}


@pytest.mark.parametrize("text", ["a=b", "t:x=5", "t:0=five", '{"a"', '{"a": 1}', '{"a": 1}=5'])
def test_what_is_no_offset_is_told(text: str) -> None:
    with pytest.raises(UsageError, match="is not"):
        parse_offsets([text])


def test_offsets_of_sources_and_topics_with_colons() -> None:
    assert parse_offsets(['{"filename": "a=b"} = {"position": 30}', "a:b:1=7", "t:0=null"]) == [
        {"partition": {"filename": "a=b"}, "offset": {"position": 30}},
        {"partition": {"kafka_topic": "a:b", "kafka_partition": 1}, "offset": {"kafka_offset": 7}},
        {"partition": {"kafka_topic": "t", "kafka_partition": 0}, "offset": None},
    ]
