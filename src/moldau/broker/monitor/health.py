"""The broker's health: ok, degraded or failing, always with cause and remedy.

Probes are functions that check one part of the broker and return conditions; `node.py` registers them. A
verdict is computed on request, and every few seconds, so that changes are logged once.

Three questions with different consequences:

    live      does the event loop run?    If not, restart the process. Any response proves it.
    ready     would a request succeed?    If not, send clients elsewhere. Recovery must not cause a restart.
    verdict   is anything wrong?          Alert a person. A nearly full disk takes no broker out of service.

A probe must be quick (it runs on the event loop; in the checks of every few seconds each has a turn of its
own) and may fail: then that is a condition, and the others still count.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum

from moldau.broker.monitor.conditions import Condition, Severity, condition
from moldau.common.core.clock import Clock
from moldau.common.core.timers import TimerHandle, Timers

log = logging.getLogger("moldau.health")

Probe = Callable[[], Iterable[Condition]]
_CHECK_EVERY_MS = 5_000
_PASSING_MS_MAX = 30_000
"""How long the broker may be starting or stopping before the log says so."""


class Phase(IntEnum):
    """The broker's lifecycle state, numbered as Kafka's BrokerState metric."""

    NOT_RUNNING = 0
    STARTING = 1
    RECOVERY = 2
    RUNNING = 3
    SHUTTING_DOWN = 7


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result at one moment; `causes` are ordered, the worst first."""

    causes: tuple[Condition, ...]

    @property
    def severity(self) -> int:
        """0 ok, 1 degraded, 2 failing."""
        return max((cause.severity for cause in self.causes), default=0)

    @property
    def word(self) -> str:
        """ok, degraded or failing."""
        return ("ok", "degraded", "failing")[self.severity]

    @property
    def unready(self) -> Condition | None:
        """The condition that makes the broker unready, if there is one."""
        return next((cause for cause in self.causes if cause.unready), None)


class Health:
    """Runs the probes, keeps the phase, and logs changes."""

    def __init__(self, clock: Clock, facts: Callable[[], Mapping[str, object]] = dict) -> None:
        """`facts` returns further fields of the health page: version, node id, addresses."""
        self.phase = Phase.STARTING
        self.facts = facts
        self._clock = clock
        self._started_ms = clock.monotonic_ms()
        self._probes: list[Probe] = []
        self._present: dict[str, Condition] = {}
        self._passing_since_ms: dict[str, float] = {}
        self._timer: TimerHandle | None = None

    def register(self, *probes: Probe) -> None:
        """Add probes."""
        self._probes.extend(probes)

    @property
    def uptime_ms(self) -> float:
        """The time since the start."""
        return self._clock.monotonic_ms() - self._started_ms

    def verdict(self) -> Verdict:
        """Run all probes now."""
        found = list(_of_phase(self.phase))
        for probe in self._probes:
            found += _found_by(probe)
        return _verdict_of(found)

    # Watching

    def watch(self, timers: Timers) -> None:
        """Check now and every few seconds until `stop`, and log changes."""
        self.check()
        self._timer = timers.call_later(_CHECK_EVERY_MS, lambda: self._check_in_turns(timers))

    def _check_in_turns(self, timers: Timers) -> None:
        """A probe that looks at all partitions takes milliseconds where there are thousands: one a turn."""
        probes, found = iter(self._probes), list(_of_phase(self.phase))

        def turn() -> None:
            probe = next(probes, None)
            if probe is not None:
                found.extend(_found_by(probe))
                self._timer = timers.call_later(0, turn)
            else:
                self._log_changes(_verdict_of(found))
                self._timer = timers.call_later(_CHECK_EVERY_MS, lambda: self._check_in_turns(timers))

        turn()

    def stop(self) -> None:
        """Stop checking."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def check(self) -> Verdict:
        """Compute a verdict and log its changes since the last check, by condition name; those of a
        start or a stop only if they last.
        """
        verdict = self.verdict()
        self._log_changes(verdict)
        return verdict

    def _log_changes(self, verdict: Verdict) -> None:
        present = {cause.name: cause for cause in reversed(verdict.causes) if self._is_news(cause)}
        for name, cause in present.items():
            if name not in self._present:
                level = logging.ERROR if cause.severity == Severity.FAIL else logging.WARNING
                log.log(level, "%s: %s %s", name, _sentence(cause.message), cause.remedy)
        for name in self._present:
            if name not in present:
                log.info("%s: over", name)
        self._present = present
        self._passing_since_ms = {
            cause.name: self._passing_since_ms[cause.name] for cause in verdict.causes if cause.passing
        }

    def _is_news(self, cause: Condition) -> bool:
        """Whether to log it: conditions of every start only if they last."""
        if not cause.passing:
            return True
        now_ms = self._clock.monotonic_ms()
        return now_ms - self._passing_since_ms.setdefault(cause.name, now_ms) >= _PASSING_MS_MAX


def _found_by(probe: Probe) -> list[Condition]:
    """What it finds now; that it fails is a condition too."""
    found: list[Condition] = []
    try:
        found.extend(probe())
    except Exception as error:
        name = getattr(probe, "__qualname__", type(probe).__name__)
        found.append(condition("probe-failed", f"{name}: {type(error).__name__}: {error}"))
    return found


def _verdict_of(found: list[Condition]) -> Verdict:
    return Verdict(tuple(sorted(found, key=lambda cause: (-cause.severity, not cause.unready, cause.name))))


def _sentence(text: str) -> str:
    return text if text.endswith(".") else text + "."


def _of_phase(phase: Phase) -> Iterable[Condition]:
    if phase in (Phase.NOT_RUNNING, Phase.STARTING):
        yield condition("starting", "the broker is starting; clients are not served yet")
    elif phase is Phase.RECOVERY:
        # Also before the logs are counted and after the last one is open: listeners still refuse connections.
        yield condition(
            "starting", "the broker opens its logs and then its parts; clients are not served yet"
        )
    elif phase is Phase.SHUTTING_DOWN:
        yield condition("stopping", "the broker is shutting down")
