"""The command line as a whole: documentation, help, and what happens without a broker."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from moldau.tools.app import COMMANDS, READER_GONE, build, run
from moldau.tools.document import SHARED, document
from moldau.tools.main import main
from moldau.tools.shared.errors import CommandError
from moldau.tools.shared.output import plain_table, words_of

DOCUMENTATION = Path(__file__).parents[3] / "docs" / "commands.md"


def commands(path: tuple[str, ...], command: Any) -> list[tuple[tuple[str, ...], Any]]:
    inner = getattr(command, "commands", None)
    if not inner:
        return [(path, command)]
    return [found for name, each in inner.items() for found in commands((*path, name), each)]


ALL = commands((), typer.main.get_command(build(list(COMMANDS))))


def test_the_documentation_is_what_the_commands_say() -> None:
    assert DOCUMENTATION.read_text() == document(), "run: python -m moldau.tools.document > docs/commands.md"


@pytest.mark.parametrize(("path", "command"), ALL, ids=[" ".join(path) for path, _ in ALL])
def test_every_command_and_option_has_words_of_help(path: tuple[str, ...], command: Any) -> None:
    written = document()
    assert f"moldau {' '.join(path)}\n" in written
    assert command.help
    for param in command.params:
        assert param.help, f"{' '.join(path)}: {param.name} says nothing"
        if param.name in SHARED or param.param_type_name == "argument":
            continue
        assert all(name in written for name in param.opts)


@pytest.mark.parametrize(("path", "command"), ALL, ids=[" ".join(path) for path, _ in ALL])
def test_no_option_means_two_things(path: tuple[str, ...], command: Any) -> None:
    names = [name for param in command.params if param.param_type_name == "option" for name in param.opts]
    assert sorted(names) == sorted(set(names)), " ".join(path)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_one_command_exits_well(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name, "--help"]) == 0
    assert f"moldau {name}" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words",
    [
        ["topics", "list"],
        ["topics", "create", "t"],
        ["produce", "t"],
        ["consume", "t"],
        ["groups", "list"],
        ["configs", "describe", "topic"],
    ],
)
def test_without_a_broker_a_sentence_says_what_to_do(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as taken:
        # Bound but not listening: connections are refused, and nobody else can take the port meanwhile.
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        assert main([*words, "-b", f"127.0.0.1:{port}"]) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"moldau: no broker answers at 127.0.0.1:{port}: start one with `moldau serve`")
    assert len(error.splitlines()) == 1


def test_status_without_a_broker_is_failing(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert main(["status", "-b", address, "--http", address]) == 2
    assert "no broker answers" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["topics", "list", "-b", "localhost:port"], "not an address"),
        (["topics", "create", "t", "-c", "retention.ms"], "NAME=VALUE"),
        (["topics", "alter", "t"], "nothing to alter"),
        (["configs", "alter", "topic", "t"], "nothing to alter"),
        (["configs", "describe", "planet"], "topic, broker or group"),
        (["produce", "t", "-z", "rar"], "codec"),
        (["produce", "t", "-a", "7"], "--acks"),
        (["produce", "t", "-K", ":", "-f", "%v"], "-K and -f"),
        (["consume", "t", "-o", "yesterday"], "-o 'yesterday'"),
        (["consume", "t", "-f", "%z"], "'%z'"),
        (["consume", "t", "-g", "g", "-o", "5"], "--group"),
        (["consume", "t", "-g", "g", "-p", "0"], "leave out -p"),
        (["groups", "reset-offsets", "g", "--topic", "t"], "exactly one target"),
        (["groups", "reset-offsets", "g", "--to-latest"], "name the partitions"),
        (["groups", "reset-offsets", "--to-latest", "--all-topics"], "name the groups"),
        (["groups", "reset-offsets", "g", "--to-latest", "--dry-run", "--execute"], "contradict"),
    ],
)
def test_a_wrong_call_is_explained(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert says in capsys.readouterr().err


def test_an_unknown_command_suggests_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topcs"]) == 2
    assert "topics" in capsys.readouterr().err


def test_version_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version", "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)) == {
        "moldau",
        "python",
        "librdkafka",
        "missing_kernels",
        "stale_kernels",
    }


def test_version_needs_no_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("moldau ")


def test_a_reader_that_went_away_is_no_fault() -> None:
    command = f"{sys.executable} -m moldau version --json | true; exit ${{PIPESTATUS[0]}}"
    finished = subprocess.run(["bash", "-c", command], capture_output=True, timeout=60, check=False)
    assert (finished.returncode, finished.stderr) in ((READER_GONE, b""), (0, b""))  # 0: it was read first


def test_a_plain_table_aligns_and_marks_what_is_absent() -> None:
    rows = [{"a": "x", "b": None}, {"a": "long", "b": [1, 2]}]
    assert plain_table(rows, {"a": "A", "b": "B"}) == "A     B\nx     -\nlong  1,2"


@pytest.mark.parametrize(
    ("heading", "words"),
    [("LOG-END-OFFSET", "log end offset"), ("TransactionalId", "transactional id"), ("#MEMBERS", "#members")],
)
def test_headings_of_kafkas_tools_are_words_on_a_terminal(heading: str, words: str) -> None:
    assert words_of(heading) == words


def test_a_start_that_is_refused_leaves_the_collector_of_its_caller_on(tmp_path: Path) -> None:
    import gc

    gc.enable()
    assert main(["serve", "--config", str(tmp_path / "missing.properties")]) == 2
    assert gc.isenabled()


def test_client_settings_of_a_file_come_before_those_of_words(tmp_path, monkeypatch):
    """--command-config, in Java's notation; the broker that it names counts if no other is named."""
    seen = []

    class Stub:
        def __init__(self, bootstrap, client_settings=None, timeout_seconds=0.0):
            seen.append((bootstrap, list(client_settings)))
            raise CommandError("enough")

    monkeypatch.setattr("moldau.tools.shared.connection.Connection", Stub)
    monkeypatch.delenv("MOLDAU_BOOTSTRAP", raising=False)
    file = tmp_path / "client.properties"
    file.write_text(
        'bootstrap.servers=file:9093\nsecurity.protocol=SASL_SSL\nsasl.jaas.config=x required \\\n a="b=c";\n'
    )
    settings = ["security.protocol=SASL_SSL", 'sasl.jaas.config=x required a="b=c";']
    words = ["topics", "list", "--command-config", str(file)]
    assert run([*words, "-X", "client.id=me"]) == 1
    assert run([*words, "-b", "here:9092"]) == 1
    monkeypatch.setenv("MOLDAU_COMMAND_CONFIG", str(file))
    assert run(["topics", "list"]) == 1
    assert seen == [
        ("file:9093", [*settings, "client.id=me"]),
        ("here:9092", settings),
        ("file:9093", settings),
    ]
    monkeypatch.setenv("MOLDAU_COMMAND_CONFIG", str(tmp_path / "missing"))
    assert run(["topics", "list"]) == 2
