"""serve: its options, its errors before a broker exists, and what it must not import."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from moldau.tools.commands.serve.command import OPTIONS, Mistake, overrides, parse, split_address
from moldau.tools.main import main


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], []),
        (["--data", "/a,/b"], ["log.dirs=/a,/b"]),
        (["--data=/a"], ["log.dirs=/a"]),
        (["--port", "0"], ["listeners=PLAINTEXT://127.0.0.1:0"]),
        (["--listen", "0.0.0.0:9999"], ["listeners=PLAINTEXT://0.0.0.0:9999"]),
        (["--listen", "0.0.0.0"], ["listeners=PLAINTEXT://0.0.0.0:9092"]),
        (["-l", "host", "-p", "1"], ["listeners=PLAINTEXT://host:1"]),
        (["--listen", "[::1]:9092"], ["listeners=PLAINTEXT://[::1]:9092"]),
        (["--http", "off"], ["moldau.http.listener="]),
        (["-s", "a=b", "--data", "/d", "--set", "c=d"], ["log.dirs=/d", "a=b", "c=d"]),
    ],
)
def test_options_become_settings(words: list[str], expected: list[str]) -> None:
    assert overrides(parse(words)) == expected


@pytest.mark.parametrize("words", [["--dta", "x"], ["stray"], ["--data"], ["--set"]])
def test_a_wrong_command_line_is_refused(words: list[str]) -> None:
    with pytest.raises(Mistake) as refusal:
        parse(words)
    assert refusal.value.exit_code == 2


@pytest.mark.parametrize("text", ["host:port", "host:70000", "host:"])
def test_a_wrong_port_is_refused(text: str) -> None:
    with pytest.raises(Mistake, match="port"):
        split_address(text, "9092")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--config", "/nowhere/server.properties"], "/nowhere/server.properties"),
        (["--set", "log.retention.ms=soon"], "log.retention.ms"),
        (["--set", "log.retention.ms"], "name=value"),
        (["--nonsense"], "moldau serve --help"),
    ],
)
def test_a_broker_that_cannot_start_says_why(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", *words]) == 2
    error = capsys.readouterr().err
    assert says in error
    assert len(error.strip().splitlines()) == 1


def test_help_lists_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--help"]) == 0
    shown = capsys.readouterr().out
    for option in OPTIONS:
        for name in option.names:
            assert name in shown


def test_serve_imports_no_library_of_the_other_commands(tmp_path: Path) -> None:
    """A broker's start must not wait for what only a terminal needs."""
    program = (
        "import sys\n"
        "from moldau.tools.main import main\n"
        f"code = main(['serve', '--set', 'log.retention.ms=soon', '--data', {str(tmp_path)!r}])\n"
        "import moldau.broker.node\n"
        "heavy = {'typer', 'rich', 'confluent_kafka', 'click'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else code)\n"
    )
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert finished.returncode == 2, finished.stderr
