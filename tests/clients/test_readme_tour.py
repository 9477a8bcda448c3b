"""README's tour, typed line by line as it is printed, beside a broker whose data is in ./data."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from moldau.testing import Broker

README = Path(__file__).parents[2] / "README.md"
LINE_SECONDS = 120


def tour() -> list[str]:
    """The chapter's commands, but for those that start a broker."""
    chapter = README.read_text().split("## A short tour")[1].split("\n## ")[0]
    lines = re.findall(r"^    (\S.*\bmoldau \w.*|moldau .*)$", chapter, re.MULTILINE)
    return [line for line in lines if "moldau serve" not in line]


def test_the_tour_works_as_printed(tmp_path: Path) -> None:
    lines = tour()
    assert len(lines) >= 12, lines
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "moldau"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m moldau "$@"\n')
    program.chmod(0o755)
    # A machine whose disk is nearly full is degraded, and `moldau status` says so.
    with Broker(process=True, data=tmp_path / "data", moldau_health_disk_min_free_ratio=0) as broker:
        environment = {
            **os.environ,
            "PATH": f"{folder}:{os.environ['PATH']}",
            "MOLDAU_BOOTSTRAP": broker.bootstrap_servers,
        }
        said: dict[str, str] = {}
        for line in lines:
            done = subprocess.run(
                ["bash", "-o", "pipefail", "-c", line],
                cwd=tmp_path,
                env=environment,
                capture_output=True,
                text=True,
                timeout=LINE_SECONDS,
                check=False,
            )
            assert done.returncode == 0, (line, done.stdout, done.stderr)
            said[line] = done.stdout + done.stderr
    shown = "\n".join(said.values())
    assert "alice says hello" in shown
    (described,) = (text for line, text in said.items() if "groups describe" in line)
    assert re.search(r"billing\s+orders\s+\d+\s+\d+", described), described
    (dumped,) = (text for line, text in said.items() if "dump-log" in line)
    assert "payload:" in dumped, dumped
