"""Offsets are changed (KIP-875) on a thread of their own: a connector is started for it, whose other side may
not answer, and nothing else waits for that.

    loop: the leader? stopped, without tasks? ──> thread: connector's own part ── still so? ──> fence, write
                                                                              └─ no: nothing was changed

Until the thread has ended, the connector cannot be changed or resumed (409): what it does to the other side
cannot be called back. It may be deleted; then the thread ends without an effect on topics and groups.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from threading import Lock, Thread

from moldau.services.connect.herder.asking import REQUEST_SECONDS, asked
from moldau.services.connect.herder.interface import HerderProblem, NotLeader
from moldau.services.connect.herder.leading import Leading
from moldau.services.connect.herder.loop import Loop
from moldau.services.connect.herder.parts import Parts
from moldau.services.connect.herder.problems import bad_request, failed, not_found
from moldau.services.connect.runtime.hiding import Hiding, filled_in, without
from moldau.services.connect.runtime.interface import State
from moldau.services.connect.stores.configs import Config
from moldau.services.connect.stores.interface import WRITE_SECONDS
from moldau.services.connect.stores.kafka_log import LogFailed

CHANGES_MAX = 16
"""Threads at a time."""
_NOT_STOPPED = (
    "Connectors must be in the STOPPED state before their offsets can be modified. This can be done for the "
    "specified connector by issuing a 'PUT' request to the '/connectors/{}/stop' endpoint"
)

Act = Callable[[Config, str, Callable[[], None]], str]
"""The settings with references filled in, the kind, and what returns while the change may still be made
(HerderProblem otherwise) -> what to tell the user. HerderProblem, ConnectError."""


class _Change:
    """One that is under way."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.is_given_up = False


class OffsetChanges:
    """See the module."""

    def __init__(
        self, parts: Parts, loop: Loop, leading: Leading, wait_seconds: float = REQUEST_SECONDS
    ) -> None:
        self._stores, self._secrets, self._kind_of = parts.stores, parts.secrets, parts.kind_of
        self._loop, self._leading, self._wait_seconds = loop, leading, wait_seconds
        self._lock = Lock()
        self._running: dict[str, _Change] = {}

    def refuse_during(self, name: str) -> None:
        """Return unless the connector's offsets are being changed. HerderProblem 409."""
        with self._lock:
            if name in self._running:
                raise HerderProblem(
                    409, f"The offsets of connector {name} are being changed: try again when that has ended"
                )

    def make(self, name: str, act: Act) -> str:
        """Blocks, at most for a request's time; a change that takes longer has no effect on topics and
        groups. HerderProblem."""
        change = asked(self._loop, lambda: self._begin(name))
        done: Future[str] = Future()
        Thread(
            target=self._work, args=(name, change, act, done), name=f"connect-offsets-{name}", daemon=True
        ).start()
        try:
            return done.result(self._wait_seconds)
        except FutureTimeout:
            change.is_given_up = True
            raise failed(
                f"The offsets of connector {name} were not changed within {self._wait_seconds:g} s: does its "
                "other side answer? Until it does, the connector cannot be resumed or changed"
            ) from None

    def _begin(self, name: str) -> _Change:
        self._leading.require()
        state = self._stores.configs()
        if name not in state.connectors:
            raise not_found(f"Connector {name} not found")
        if state.target(name) is not State.STOPPED or state.task_counts.get(name):
            raise bad_request(_NOT_STOPPED.format(name))
        self.refuse_during(name)
        with self._lock:
            if len(self._running) >= CHANGES_MAX:
                raise HerderProblem(503, f"Offsets of {CHANGES_MAX} connectors are being changed: try again")
            made = self._running[name] = _Change(state.connectors[name])
        return made

    def _work(self, name: str, change: _Change, act: Act, done: Future[str]) -> None:
        try:
            config = self._secrets.filled(change.config)
            done.set_result(self._act(act, name, change, config))
        except BaseException as problem:
            done.set_exception(problem)
        finally:
            with self._lock:
                del self._running[name]

    def _act(self, act: Act, name: str, change: _Change, config: Config) -> str:
        """What it fails with may have come from the other side, with a secret in it. HerderProblem."""
        secrets, hiding = filled_in(change.config, config), Hiding(config)
        try:
            return act(config, self._kind_of(config), lambda: self._still(name, change))
        except NotLeader:
            raise
        except HerderProblem as problem:
            raise HerderProblem(problem.status, hiding.text(without(secrets, str(problem)))) from None
        except Exception as problem:  # a class of anybody's
            why = hiding.text(without(secrets, f"{type(problem).__name__}: {problem}"))
            raise failed(f"The offsets of connector {name} were not changed: {why}") from None

    def _still(self, name: str, change: _Change) -> None:
        """HerderProblem: what was so when the change began is not so any more."""
        try:
            self._stores.read_configs(WRITE_SECONDS)
        except (LogFailed, TimeoutError) as problem:
            raise failed(str(problem)) from None
        self._leading.require()
        state = self._stores.configs()
        if (
            change.is_given_up
            or state.connectors.get(name) != change.config
            or state.target(name) is not State.STOPPED
            or state.task_counts.get(name)
        ):
            raise HerderProblem(
                409,
                f"The connector {name} was changed or resumed meanwhile: its offsets were left as they are",
            )
