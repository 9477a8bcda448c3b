"""`moldau kafka-home`: a folder as a Kafka download has it."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from moldau.tools.kafka.homes.home import lay_out
from moldau.tools.kafka.homes.home_config import write_config
from moldau.tools.kafka.running import NO_SUCH_TOOL, run
from moldau.tools.kafka.tools import CLASSES, RETIRED, TOOLS
from moldau.tools.shared.errors import CommandError


def test_every_tool_is_there_in_both_forms(tmp_path: Path) -> None:
    lay_out(tmp_path / "kafka")
    names = {path.name for path in (tmp_path / "kafka" / "bin").iterdir()}
    assert names == {f"{name}{end}" for name in (*TOOLS, *RETIRED) for end in ("", ".sh")}
    assert all(os.access(path, os.X_OK) for path in (tmp_path / "kafka" / "bin").iterdir())


def test_a_script_works_from_anywhere_with_any_python3_on_the_path(tmp_path: Path) -> None:
    home = tmp_path / "a folder"
    lay_out(home)
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    for name in ("python3", "python"):
        (foreign / name).write_text("#!/bin/sh\necho the wrong Python; exit 9\n")
        (foreign / name).chmod(0o755)
    for name in ("moldau", "socket", "argparse"):
        (foreign / f"{name}.py").write_text("raise SystemExit('the wrong module')\n")
    done = subprocess.run(
        ["kafka-topics.sh", "--version"],
        cwd=foreign,
        env={"PATH": f"{home}/bin:{foreign}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "4.3.1\n", "")


def test_it_may_be_run_again_and_keeps_what_was_changed(tmp_path: Path) -> None:
    home = tmp_path / "kafka"
    lay_out(home)
    script = home / "bin" / "kafka-topics.sh"
    script.write_text("broken")
    assert lay_out(home) == []
    assert script.read_text().startswith("#!/bin/sh")


def test_config_files_are_renewed_unless_they_were_changed(tmp_path: Path) -> None:
    folder = tmp_path / "config"
    assert write_config(folder, {"a": "1\n", "b": "1\n"}) == []
    (folder / "a").write_text("mine\n")
    assert write_config(folder, {"a": "2\n", "b": "2\n"}) == [folder / "a"]
    assert (folder / "a").read_text() == "mine\n"
    assert (folder / "b").read_text() == "2\n"
    (folder / "a").unlink()
    assert write_config(folder, {"a": "2\n", "b": "2\n"}) == []


def test_somebody_elses_folder_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("x")
    with pytest.raises(CommandError, match="holds something else"):
        lay_out(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]
    with pytest.raises(CommandError, match="is a file"):
        lay_out(tmp_path / "precious")


def test_an_empty_folder_will_do(tmp_path: Path) -> None:
    lay_out(tmp_path)
    assert (tmp_path / "bin" / "kafka-topics").exists()


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        (["kafka-consumer-offset-checker.sh", "--group", "g"], "kafka-consumer-groups"),
        (["kafka-preferred-replica-election"], "kafka-leader-election"),
        (["kafka-mirror-maker", "--help"], "connect-mirror-maker"),
        (
            ["kafka-run-class", "kafka.tools.GetOffsetShell", "--topic", "t"],
            "use: kafka-get-offsets --topic t",
        ),
        (["kafka-run-class"], "no Java classes"),
    ],
)
def test_a_retired_tool_says_what_to_type(
    words: list[str], advice: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(words[0], words[1:]) == NO_SUCH_TOOL
    assert advice in capsys.readouterr().err


@pytest.mark.parametrize("advice", [*RETIRED.values(), *CLASSES.values()])
def test_what_is_advised_is_there(advice: str) -> None:
    named = re.findall(r"\bkafka-[a-z0-9-]+", advice)
    assert all(name in TOOLS for name in named if name not in RETIRED), advice
