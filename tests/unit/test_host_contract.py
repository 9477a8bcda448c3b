"""The broker reaches the world only through its host (moldau/broker/host.py).

Reads the source of the broker's packages and fails where one uses a clock, random numbers, files, threads,
processes or sockets by itself: a simulation could neither hold such a broker nor repeat its run. What is
allowed stands in `ALLOWED`, with the reason.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import moldau

ROOT = Path(moldau.__file__).parent
BROKER = ("broker", "common/core", "common/protocol", "common/records", "common/settings")

WORLD = (
    "asyncio.create_subprocess_exec",
    "asyncio.create_subprocess_shell",
    "asyncio.open_connection",
    "asyncio.start_server",
    "asyncio.to_thread",
    "builtins.open",
    "concurrent.futures.ProcessPoolExecutor",
    "concurrent.futures.ThreadPoolExecutor",
    "datetime.date.today",
    "datetime.datetime.now",
    "datetime.datetime.utcnow",
    "fcntl",
    "multiprocessing",
    "os",
    "random",
    "resource",
    "secrets",
    "shutil",
    "signal",
    "socket",
    "subprocess",
    "tempfile",
    "threading",
    "time",
    "uuid.getnode",
    "uuid.uuid1",
    "uuid.uuid4",
)
"""What the broker has from its host only; a module means all that is in it."""

HARMLESS = (
    "os.path.abspath",  # reads the working directory only for a relative path
    "os.path.basename",
    "os.path.dirname",
    "random.Random",  # the type, or a source made of a seed
    "socket.SO_KEEPALIVE",
    "socket.SOL_SOCKET",
    "socket.gaierror",
)
"""Names of those modules that touch nothing."""

PATH_METHODS = ("mkdir", "read_bytes", "read_text", "unlink", "write_bytes", "write_text")
"""Methods of a `pathlib.Path` that touch the disk."""

ALLOWED = {
    "broker/host.py": "the host",
    "common/core/clock.py": "the real clock",
    "common/core/collector.py": "of the registry alone: a lock between its threads, the default of a counter",
    "common/core/files.py": "the real files",
    "common/core/network.py": "the real sockets",
    "common/core/accepting.py": "the real sockets",
    "common/core/workers.py": "the real threads",
    "common/core/kernels.py": "reads once, when it is imported, whether kernels may be used",
    "common/core/logs.py": "the time in a line of the log",
    "common/core/side_worker.py": "the default of a counter that the node hands in",
    "common/core/slow_lane.py": "the default of a counter that the node hands in",
    "common/settings/without_effect.py": "a table of the package, read when it is imported",
    "common/settings/sources.py": "the file of settings, read before there is a node",
    "common/settings/providers.py": "the files that settings name, read with them",
    "common/records/walk.py": "a pause in a worker's thread, where there is no kernel",
    "broker/log/state/producers_rebuild.py": "a pause in a worker's thread",
    "broker/log/recovery/loading.py": "a lock between the threads that open logs",
    "broker/log/compaction/clean.py": "defaults for the worker process",
    "broker/log/compaction/kernel.py": "the secret of a hash table, which changes no result",
    "broker/log/compaction/process.py": "the real worker process, made by the host",
    "broker/log/compaction/worker.py": "the program of that process",
    "broker/monitor/request_times.py": "how long a request took, for the metrics",
    "broker/monitor/process.py": "the real process's facts, read by the host",
    "broker/monitor/document.py": "a program that writes the documentation",
}


def test_the_broker_reaches_the_world_through_its_host_only() -> None:
    found = {
        name: sorted(set(reaches(path.read_text())))
        for name, path in broker_modules()
        if name not in ALLOWED and set(reaches(path.read_text()))
    }
    assert not found, "hand these in through moldau/broker/host.py"


def test_every_exception_is_needed() -> None:
    modules = dict(broker_modules())
    assert not [
        name for name in ALLOWED if name not in modules or not set(reaches(modules[name].read_text()))
    ]


def test_a_reach_is_seen_however_it_is_written() -> None:
    assert set(reaches("import time\ntime.time()")) == {"time.time"}
    assert set(reaches("from time import monotonic as now\nnow()")) == {"time.monotonic"}
    assert set(reaches("import os.path\nos.path.getsize('x')")) == {"os.path.getsize"}
    assert set(reaches("open('x')")) == {"builtins.open"}
    assert set(reaches("import random\nrandom.Random()")) == {"random.Random()"}
    assert set(reaches("from random import Random, SystemRandom\nRandom(1)\nSystemRandom()")) == {
        "random.SystemRandom"
    }
    assert set(reaches("def f(path):\n    path.read_text()")) == {"Path.read_text"}
    assert set(reaches("import asyncio\nasyncio.to_thread(f)")) == {"asyncio.to_thread"}
    assert not set(reaches("import random, os\ndef f(source: random.Random): os.path.dirname('/a/b')"))


def broker_modules() -> Iterator[tuple[str, Path]]:
    for part in BROKER:
        for path in [ROOT / part] if part.endswith(".py") else sorted((ROOT / part).rglob("*.py")):
            yield path.relative_to(ROOT).as_posix(), path


def reaches(source: str) -> Iterator[str]:
    """The names of the world that a module's source uses."""
    tree = ast.parse(source)
    names = imported_names(tree)
    inner = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute) and node.func.attr in PATH_METHODS:
                yield f"Path.{node.func.attr}"
            if full_name(node.func, names) == "random.Random" and not node.args:
                yield "random.Random()"  # seeded by the system
        if isinstance(node, (ast.Attribute, ast.Name)) and id(node) not in inner and is_read(node):
            name = full_name(node, names)
            if within(name, WORLD) and not within(name, HARMLESS):
                yield name


def is_read(node: ast.Attribute | ast.Name) -> bool:
    return isinstance(node.ctx, ast.Load)


def imported_names(tree: ast.Module) -> dict[str, str]:
    """What the module's names stand for."""
    names = {"open": "builtins.open"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for each in node.names:
                top = each.name.partition(".")[0]
                names[each.asname or top] = each.name if each.asname else top
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            for each in node.names:
                names[each.asname or each.name] = f"{node.module}.{each.name}"
    return names


def full_name(node: ast.expr, names: dict[str, str]) -> str:
    """The dotted name behind an expression; empty when it is none."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.insert(0, node.attr)
        node = node.value
    if not isinstance(node, ast.Name) or node.id not in names:
        return ""
    return ".".join([names[node.id], *parts])


def within(name: str, places: tuple[str, ...]) -> bool:
    return any(name == place or name.startswith(place + ".") for place in places)
