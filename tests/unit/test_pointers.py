"""Every file and module that a docstring, a comment or a page of the documentation points to exists.

node.py          in the same folder or a folder above it, or the only file of this name
log/log.py       the end of a file's path
moldau.tools.app a module, or a name in one; `moldau.` also begins names of settings, headers and a feature
"""

from __future__ import annotations

import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau.broker.metadata import levels
from moldau.common.settings.broker import BrokerSettings
from moldau.services.console.settings import ConsoleSettings
from moldau.services.registry.settings import RegistrySettings
from moldau.services.rest.settings import RestSettings

ROOT = Path(__file__).parents[2]
POINTER = re.compile(r"(?<![\w./<{*-])(?:\.\./)*((?:[\w.-]+/)*[\w-]+\.(?:py|c|md))\b(?!\w)")
MODULE = re.compile(r"(?<![\w./])(?:moldau|pyspark_moldau)(?:\.[a-z_]\w*)+")
ELSEWHERE = {"pyspark/daemon.py", "program.py", "app.py", "flights.py"}  # PySpark's, and files of a user
FOLDERS = ("src", "tests", "bench", "docs", "scripts")
INSIDE_A_HOUSE = {
    path.stem if path.is_file() else path.name
    for house in ("broker", "common", "services", "tools")
    for path in (ROOT / "src" / "moldau" / house).iterdir()
    if not path.name.startswith("_")
} | {"agent", "cli"}
"""Folders and modules that are no houses: a name that begins with one of them has lost its house."""
CONNECT_SETTINGS = ("moldau.connect.engine", "moldau.connect.spark")
"""Of a worker and its connectors; they are in no table of the broker's."""
LOGGERS = {
    name
    for path in (ROOT / "src").rglob("*.py")
    for name in re.findall(r"getLogger\(\"([\w.]+)\"\)", path.read_text())
}
SETTINGS = {
    *BrokerSettings.ROWS,
    *ConsoleSettings.ROWS,
    *RegistrySettings.ROWS,
    *RestSettings.ROWS,
    levels.FEATURE,
}


def _files() -> list[Path]:
    inside = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.*")]
    return [*ROOT.glob("*.*"), *inside]


FILES = sorted(path.relative_to(ROOT) for path in _files() if path.suffix in (".py", ".c", ".md"))
BY_NAME: dict[str, list[Path]] = {}
for _path in FILES:
    BY_NAME.setdefault(_path.name, []).append(_path)


def _prose(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a page, or the lines of the docstrings and comments of a module, with their numbers."""
    if path.suffix == ".md":
        yield from enumerate((ROOT / path).read_text().splitlines(), 1)
        return
    with tokenize.open(ROOT / path) as source:
        for token in tokenize.generate_tokens(source.readline):
            text = token.string
            if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and '"""' in text[:5]):
                yield from enumerate(text.splitlines(), token.start[0])


def _is_found(pointer: str, page: Path) -> bool:
    """Whether a pointer on `page` leads to exactly the file that its reader would open."""
    if pointer in ELSEWHERE:
        return True
    found = [path for path in BY_NAME.get(Path(pointer).name, []) if f"/{path}".endswith(f"/{pointer}")]
    if "/" in pointer or page.suffix == ".md":
        return bool(found)
    return len(found) == 1 or any(path.parent in page.parents for path in found)


def _is_module(name: str) -> bool:
    """Whether a dotted name is a package or module, or stands in one; or is the name of something else."""
    parts = name.split(".")
    first = ROOT.joinpath("src", *parts[:2])
    if name in SETTINGS or name in LOGGERS or name.startswith(CONNECT_SETTINGS):
        return True
    if parts[0] == "moldau" and parts[1] in INSIDE_A_HOUSE and not first.is_dir():
        return False
    if not (first.is_dir() or first.with_suffix(".py").exists()):
        return True
    for length in (len(parts), len(parts) - 1):
        base = ROOT.joinpath("src", *parts[:length])
        source = base.with_suffix(".py") if base.with_suffix(".py").exists() else base / "__init__.py"
        if length > 1 and (source.exists() or base.with_suffix(".c").exists()):
            return length == len(parts) or parts[-1] in source.read_text()
    return False


@pytest.mark.parametrize("folder", ["README.md", *FOLDERS])
def test_every_file_that_is_pointed_to_exists(folder: str) -> None:
    stale = [
        f"{page}:{number}: {pointer}"
        for page in FILES
        if page.parts[0] == folder and page.suffix != ".c"
        for number, line in _prose(page)
        for pointer in POINTER.findall(line)
        if not _is_found(pointer, page)
    ]
    assert not stale, "these files do not exist, or there are several of the name:\n" + "\n".join(stale)


@pytest.mark.parametrize("folder", ["README.md", *FOLDERS])
def test_every_module_that_is_pointed_to_exists(folder: str) -> None:
    stale = [
        f"{page}:{number}: {name}"
        for page in FILES
        if page.parts[0] == folder and page.suffix != ".c"
        for number, line in _prose(page)
        for name in MODULE.findall(line)
        if not _is_module(name)
    ]
    assert not stale, "\n".join(stale)
