"""The command line of the benchmarks: one subcommand a figure, `kafka` to run the peer, `report` for the
table.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench import apache_kafka, results
from bench.brokers import KINDS, ApacheKafka, Moldau
from bench.figures import CLUSTERS, SECURITY, Figure, Values, all_figures, all_sections
from bench.proc import machine_time, spin_ms

STOLEN = "stolen_share"
SPIN = "spin_ms"
STOLEN_SHARE_MAX = 0.03
SPIN_MS_MAX = 22.0
CLUSTER_FIGURE_S_MAX = 400
"""After so long a figure of a cluster is given up."""
SECURITY_FIGURE_S_MAX = 150
"""After so long a figure of a secured broker is given up."""


def main() -> None:
    """Parse the command line and run one subcommand."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    _add_figure_commands(commands)
    _add_peer_commands(commands)
    arguments = parser.parse_args()
    sys.exit(arguments.run(arguments))


def _add_figure_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    everything = commands.add_parser("all", help="every figure, one after the other")
    everything.set_defaults(run=lambda arguments: _measure(list(all_figures().values()), arguments))
    _add_run_options(everything)
    for figure in all_figures().values():
        one = commands.add_parser(figure.name, help=figure.title)
        one.set_defaults(run=lambda arguments, figure=figure: _measure([figure], arguments))
        _add_run_options(one)
    for section in all_sections().values():
        members = [figure for figure in all_figures().values() if figure.section == section.name]
        all_of_it = commands.add_parser(section.name, help=f"{section.title}: all figures {section.name}-*")
        all_of_it.set_defaults(run=lambda arguments, members=members: _measure(members, arguments))
        _add_run_options(all_of_it)
    _add_group(commands, "clusters", "clusters", CLUSTERS, minutes=22, figure_s_max=CLUSTER_FIGURE_S_MAX)
    _add_group(
        commands, "security", "secured brokers", SECURITY, minutes=10, figure_s_max=SECURITY_FIGURE_S_MAX
    )
    report = commands.add_parser("report", help="write the table into docs/benchmarks.md")
    report.set_defaults(run=_report)


def _add_group(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    title: str,
    figures: Sequence[str],
    *,
    minutes: float,
    figure_s_max: int,
) -> None:
    """A command that takes several figures, one after the other, and then writes the report."""
    group = commands.add_parser(name, help=f"all figures of {title} in turn, then the report")
    group.set_defaults(run=lambda arguments: _measure_group(figures, figure_s_max, arguments))
    _add_run_options(group)
    group.set_defaults(runs=1, patience=1)
    group.add_argument(
        "--minutes", type=float, default=minutes, help="what is not measured by then is left out"
    )


def _add_run_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--runs", type=int, default=3, help="how often; the median counts")
    parser.add_argument("--brokers", default="moldau,kafka", help="which, in turn (moldau, kafka)")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a broker setting")
    parser.add_argument(
        "--patience", type=int, default=3, help="attempts at a run while the machine is disturbed"
    )
    parser.add_argument("--dry", action="store_true", help="print, but do not keep the results")


def _measure(figures: list[Figure], arguments: argparse.Namespace) -> int:
    settings = dict(pair.split("=", 1) for pair in arguments.set)
    for figure in figures:
        named = [kind for kind in arguments.brokers.split(",") if kind in (figure.subjects or figure.brokers)]
        kinds = named or list(figure.subjects)
        runs: dict[str, list[Values]] = {kind: [] for kind in kinds}
        for number in range(arguments.runs):
            for kind in kinds:
                values = _undisturbed(figure, kind, settings, arguments.patience)
                runs[kind].append(values)
                shown = ", ".join(f"{name} {value:.3f}" for name, value in values.items())
                print(f"{figure.name} {kind} {number + 1}/{arguments.runs}: {shown}", flush=True)
        for kind in kinds:
            if not arguments.dry:
                results.save(figure, kind, runs[kind], _version(figure, kind))
    return 0


class GaveUp(BaseException):
    """A figure took too long. Not an Exception, lest a part of a figure take it for a failure of its own."""


def _measure_group(names: Sequence[str], figure_s_max: int, arguments: argparse.Namespace) -> int:
    """One figure after the other; one that fails or takes too long does not stop the others."""

    def give_up(number: int, frame: object) -> None:
        raise GaveUp(f"gave it up ({signal.Signals(number).name})")

    signal.signal(signal.SIGALRM, give_up)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(f"ended by signal {number}"))
    figures, failed, began = all_figures(), [], time.monotonic()
    for name in names:
        for kind in arguments.brokers.split(","):
            left_s = int(began + arguments.minutes * 60 - time.monotonic())
            print(f"{(time.monotonic() - began) / 60:4.1f} min: {name} {kind}", flush=True)
            if left_s <= 0:
                failed.append(f"{name} {kind} (no time left)")
                continue
            only = argparse.Namespace(**{**vars(arguments), "brokers": kind})
            signal.alarm(min(left_s, figure_s_max * arguments.runs))
            try:
                _measure([figures[name]], only)
            except (Exception, GaveUp):
                traceback.print_exc()
                failed.append(f"{name} {kind}")
            finally:
                signal.alarm(0)
    if not arguments.dry:
        _report(arguments)
    said = f"failed: {', '.join(failed)}" if failed else "all measured"
    print(f"{(time.monotonic() - began) / 60:4.1f} min: {said}", flush=True)
    return 1 if failed else 0


def _undisturbed(figure: Figure, kind: str, settings: Mapping[str, str], attempts_max: int) -> Values:
    """Measure once; again while the machine was disturbed, and then the attempt in its best moment.

    Attempts are chosen by the state of the machine before and after, and never by what was measured.
    """
    subject = figure.subjects.get(kind)
    measure = figure.measure if subject is None else subject.measure
    broker = KINDS[kind] if subject is None else Moldau
    assert measure is not None
    attempts: list[Values] = []
    for _ in range(attempts_max):
        time_before, spin_before_ms = machine_time(), spin_ms()
        values = dict(measure(lambda: broker(None, settings)))
        values[STOLEN] = machine_time().stolen_share_since(time_before)
        values[SPIN] = max(spin_before_ms, spin_ms())
        attempts.append(values)
        if values[STOLEN] < STOLEN_SHARE_MAX and values[SPIN] < SPIN_MS_MAX:
            break
        print(
            f"{figure.name}: disturbed: {values[STOLEN]:.0%} stolen, the reference loop took "
            f"{values[SPIN]:.0f} ms",
            flush=True,
        )
    return min(attempts, key=lambda one: one[SPIN])


def _version(figure: Figure, kind: str) -> str:
    subject = figure.subjects.get(kind)
    if subject is not None and subject.version is not None:
        return subject.version()
    if kind == "kafka":
        return apache_kafka.version()
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def _report(arguments: argparse.Namespace) -> int:
    results.write_document(all_figures(), all_sections())
    return 0


def _add_peer_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    start = commands.add_parser("start", help="start a broker in the background and print its address")
    start.add_argument("kind", choices=sorted(KINDS))
    start.add_argument("--port", type=int, default=19092)
    start.add_argument("--dir", type=Path, required=True, help="data folder; also keeps the process id")
    start.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a broker setting")
    start.set_defaults(run=_start)
    stop = commands.add_parser("stop", help="stop a broker started with `start`")
    stop.add_argument("--dir", type=Path, required=True)
    stop.set_defaults(run=_stop)
    tool = commands.add_parser("kafka-tool", help="run one of Apache Kafka's own tools by its main class")
    tool.add_argument("main_class")
    tool.add_argument("arguments", nargs=argparse.REMAINDER)
    tool.set_defaults(run=_kafka_tool)


def _start(arguments: argparse.Namespace) -> int:
    settings = dict(pair.split("=", 1) for pair in arguments.set)
    if arguments.kind == "kafka" and (reason := apache_kafka.available()):
        print(reason, file=sys.stderr)
        return 1
    broker = KINDS[arguments.kind](arguments.dir, settings, arguments.port)
    if isinstance(broker, ApacheKafka):
        broker.controller_port = arguments.port + 1
    broker.start()
    (arguments.dir / "pid").write_text(str(broker.pid))
    print(f"{broker.name} pid {broker.pid} listens on {broker.address}, output in {broker.output}")
    return 0


def _stop(arguments: argparse.Namespace) -> int:
    pid = int((arguments.dir / "pid").read_text())
    os.kill(pid, signal.SIGTERM)
    (arguments.dir / "pid").unlink()
    return 0


def _kafka_tool(arguments: argparse.Namespace) -> int:
    return subprocess.call(apache_kafka.java_command(arguments.main_class, arguments.arguments))
