"""What a wheel takes from src/: besides the modules, the files that they open at run time."""

from __future__ import annotations

import filecmp
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src"
BUILT_FROM = (".c", ".h")
"""Sources of the kernels: compiled where there is a compiler, so they are not opened at run time."""
LEFT_BY_TOOLS = (".pyc", ".so")
CACHE = "__pycache__"
"""Has files of other names as well, while another process writes to it."""


def files(place: Path) -> set[Path]:
    """Files below a place; not those that tools left there."""
    found = (each.relative_to(place) for each in place.rglob("*") if each.is_file())
    return {
        each
        for each in found
        if each.suffix not in LEFT_BY_TOOLS
        and CACHE not in each.parts
        and not each.parts[0].endswith((".egg-info", ".dist-info"))
    }


def test_every_file_of_the_packages_is_in_a_wheel(tmp_path: Path) -> None:
    built = tmp_path / "lib"
    commands = ["egg_info", "--egg-base", str(tmp_path), "build_py", "--build-lib", str(built)]
    made = subprocess.run(
        [sys.executable, "setup.py", "-q", *commands],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )
    assert made.returncode == 0, made.stdout + made.stderr

    wanted = {each for each in files(SOURCES) if each.suffix not in BUILT_FROM}
    assert Path("moldau/services/rest/openapi/page.html") in wanted
    assert wanted - files(built) == set()
    assert [each for each in wanted if not filecmp.cmp(SOURCES / each, built / each, shallow=False)] == []
