"""Hostile input: how long a good client waits and how much memory the broker takes while it is attacked.

One figure an attack (`python -m bench hostile-NAME`, or `hostile` for all), each with a fresh broker:

    | quiet: good client alone | attack: the same client, while the attack strikes | 2 s after it |

The good client is a process of its own (`bench/good_client.py`) that produces and fetches a record every ten
milliseconds. Memory is the highest resident set (with child processes) over what it was before the attack.
Not here: the attacks themselves (`bench/attacks`).
"""

from __future__ import annotations

import json
import re
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.attacks import STRIKE_S, Attack, Target, all_attacks
from bench.brokers import BrokerProcess, Moldau
from bench.client import Connection
from bench.figures import Figure, Row, Section, Start, Values
from bench.proc import resident_bytes_with_children

ROOT = Path(__file__).parents[2]
_NAME = "hostile"
TOPIC = "good"
QUIET_S = 3.0
AFTER_S = 2.0
WARM_UP_S = 3.0
EVERY_S = 0.02


class GoodClient:
    """The good client's process."""

    def __init__(self, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.good_client", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        assert self._process.stdout is not None
        if self._process.stdout.readline().strip() != "ready":
            raise RuntimeError("the good client could not do its first round trip")

    def begin(self, stretch: str) -> None:
        """From now on waits count for this stretch."""
        assert self._process.stdin is not None
        self._process.stdin.write(stretch + "\n")
        self._process.stdin.flush()

    def end(self) -> Mapping[str, Any]:
        """Stop; the waits and failures by stretch."""
        output, _ = self._process.communicate(timeout=300)
        answer: Mapping[str, Any] = json.loads(output)
        return answer


class _Memory:
    """The highest resident set of a broker and its children, looked at fifty times a second."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._stop = threading.Event()
        self.first = self.peak = resident_bytes_with_children(pid)
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._stop.wait(EVERY_S):
            self.peak = max(self.peak, resident_bytes_with_children(self._pid))

    def growth_mb(self) -> float:
        """Stop watching; how far it rose."""
        self._stop.set()
        self._thread.join()
        return (self.peak - self.first) / 1e6


def measure(attack: Attack, start: Start) -> Values:
    """Waits of the good client without and with the attack, and the growth of memory."""
    broker = start()
    broker.settings.update(attack.settings)
    with broker:
        with Connection(broker.port) as connection:
            connection.create_topic(TOPIC)
        if attack.prepare is not None:
            attack.prepare(broker.port)
        http_port = _http_port(broker) if attack.probes_http else 0
        good = GoodClient("kafka", str(broker.port), TOPIC)
        probe = GoodClient("http", str(http_port)) if http_port else None
        clients = [each for each in (good, probe) if each is not None]
        time.sleep(WARM_UP_S)
        for each in clients:
            each.begin("quiet")
        time.sleep(QUIET_S)
        memory = _Memory(broker.pid)
        for each in clients:
            each.begin("attack")
        began = time.monotonic()
        target = Target(broker.port, http_port, STRIKE_S)
        attack.strike(target)
        took_s = time.monotonic() - began
        time.sleep(AFTER_S)
        values = _of(good.end()) | {"memory_mb": memory.growth_mb()}
        if probe is not None:
            values |= {f"probe_{name}": value for name, value in _of(probe.end()).items()}
        values |= {"answered": target.answered, "answered_mb": target.answered_bytes / 1e6}
        return values | {"closed": target.closed, "took_s": took_s}


def _of(told: Mapping[str, Any]) -> dict[str, float]:
    quiet, attack = sorted(told["waits_ms"]["quiet"]), sorted(told["waits_ms"]["attack"])
    return {
        "quiet_longest_ms": quiet[-1],
        "quiet_p99_ms": quiet[int(len(quiet) * 0.99)],
        "longest_ms": attack[-1],
        "p99_ms": attack[int(len(attack) * 0.99)],
        "failed": told["failed"]["attack"],
    }


def _http_port(broker: BrokerProcess) -> int:
    if not isinstance(broker, Moldau):
        return 0
    found = re.search(r"http://127\.0\.0\.1:(\d+)", broker.output.read_text())
    if found is None:
        raise RuntimeError(f"no HTTP address in the broker's output: {broker.output.read_text()[-500:]}")
    return int(found[1])


_KINDS = {"moldau": "Moldau", "kafka": "Apache Kafka"}
_NOTE = (
    "The good client produces and fetches a record every 10 ms; a wait is counted from the moment at which "
    "its round trip was due. Attacker, good client and broker share the two cores. Memory is the highest "
    "resident set over that before the attack."
)
_ROWS = (
    Row("longest_ms", "longest wait", "ms", 0),
    Row("p99_ms", "99 %", "ms", 1),
    Row("memory_mb", "memory", "MB", 0),
)


def _figure(attack: Attack) -> Figure:
    return Figure(
        f"{_NAME}-{attack.name}",
        attack.title,
        lambda start: measure(attack, start),
        _ROWS,
        section=_NAME,
        brokers=("moldau", "kafka") if attack.kafka else ("moldau",),
    )


FIGURES = tuple(_figure(attack) for attack in all_attacks())


def _table(figures: Sequence[Figure], results: Mapping[str, Any]) -> str:
    """A line for each attack, the same three columns for each broker."""
    lines = [
        "| | Moldau: longest wait, ms | 99 %, ms | memory, MB "
        "| Kafka: longest wait, ms | 99 %, ms | memory, MB |",
        f"|---|{'---:|' * 6}",
        _line(
            "no attack (median of all quiet stretches)", [_quiet(figures, results, kind) for kind in _KINDS]
        ),
    ]
    for figure in figures:
        found = results.get(figure.name)
        if found:
            medians = [found.get(kind, {}).get("median") for kind in _KINDS]
            lines.append(_line(figure.title, medians))
            if medians[0] and "probe_longest_ms" in medians[0]:
                prefix = "probe_"
                of_probe = {
                    name.removeprefix(prefix): value
                    for name, value in medians[0].items()
                    if name.startswith(prefix)
                }
                lines.append(_line("the same: a probe of `/health`", [of_probe, None]))
    return "\n".join(lines) + f"\n\n{_NOTE}\n\n{_circumstances(figures, results)}.\n"


def _circumstances(figures: Sequence[Figure], results: Mapping[str, Any]) -> str:
    """What was measured, when, and how fast the machine was meanwhile."""
    parts = []
    for kind, title in _KINDS.items():
        found = [results[each.name][kind] for each in figures if kind in results.get(each.name, {})]
        if found:
            versions = ", ".join(sorted({one["version"] for one in found}))
            spins = [one["median"]["spin_ms"] for one in found]
            days = sorted({one["measured"][:10] for one in found})
            parts.append(
                f"{title} {versions}: {' to '.join(dict.fromkeys((days[0], days[-1])))}, "
                f"spin loop {min(spins):.0f} to {max(spins):.0f} ms"
            )
    return "; ".join(parts)


def _quiet(figures: Sequence[Figure], results: Mapping[str, Any], kind: str) -> Values | None:
    found = [results[each.name][kind]["median"] for each in figures if kind in results.get(each.name, {})]
    if not found:
        return None
    return {
        name: statistics.median(one[f"quiet_{name}"] for one in found) for name in ("longest_ms", "p99_ms")
    }


def _line(title: str, columns: Sequence[Values | None]) -> str:
    cells = [
        f"{values[row.key]:,.{row.digits}f}" if values and row.key in values else "–"
        for values in columns
        for row in _ROWS
    ]
    return f"| {title} | {' | '.join(cells)} |"


SECTION = Section(_NAME, "Hostile input", _table)
