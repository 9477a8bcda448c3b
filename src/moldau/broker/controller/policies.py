"""Policies of the user: classes in Python that may refuse new topics and changed settings.

A decision is made on the event loop and must not wait for anybody's code. So it is made twice: the first time
it notes what the policies have to be asked (`Verdicts`) and leaves with `Unasked`; then they are asked, on a
thread of their own; then it is made again, with their answers at hand. If the metadata have changed meanwhile
so that the question is another one, that one is asked too.

    decide --Unasked--> thread: validate(request), ... --> decide --> append

Invariant: nothing is appended that a policy has not seen and let pass. A policy that fails, or takes longer
than moldau.policy.timeout.ms, refuses.
"""

import asyncio
import importlib
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Executor
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, TypeVar

from moldau.broker.controller.decision import Outcome, Refusal
from moldau.common.core.timers import Timers
from moldau.common.protocol.errors import ErrorCode
from moldau.common.settings.rows import SettingError
from moldau.policies import AlterConfigRequest, CreateTopicRequest, PolicyViolation

log = logging.getLogger("moldau.controller")

R = TypeVar("R")

CREATE = "create.topic.policy.class.name"
ALTER = "alter.config.policy.class.name"
_MESSAGE_CHARACTERS_MAX = 1_000
_ROUNDS_MAX = 10
"""After so many changes of the metadata between question and answer, the request is refused."""

Question = CreateTopicRequest | AlterConfigRequest
_Key = tuple[object, ...]


class Policy(Protocol):
    """A user's class."""

    def validate(self, request: Any) -> None:
        """PolicyViolation: the request is refused."""


class Unasked(Exception):
    """Leaves a decision that depends on questions which no policy has answered yet."""


def load_policies(
    names: Mapping[str, str | None],
    settings: Mapping[str, str],
    *,
    timeout_ms: int,
    thread: Executor,
    timers: Timers,
) -> "Policies | None":
    """The policies that settings name, made and configured; None: there are none. `settings`: what they are
    configured with. `thread`: runs them one after the other. SettingError: a class cannot be used."""
    loaded = {name: _load(name, value, settings) for name, value in names.items() if value}
    return Policies(loaded, timeout_ms, thread, timers) if loaded else None


def _load(setting: str, named: str, settings: Mapping[str, str]) -> Policy:
    module, _, name = named.partition(":")
    try:
        made = getattr(importlib.import_module(module), name)()
        configure = getattr(made, "configure", None)
        if configure is not None:
            configure(MappingProxyType(dict(settings)))
        if not callable(getattr(made, "validate", None)):
            raise TypeError("it has no method validate")
    except Exception as error:
        log.exception("%s=%s", setting, named)
        raise SettingError(
            setting,
            f"{setting}={named} cannot be used ({type(error).__name__}: {error}). The module must be "
            "installed for the broker's Python, or lie in a folder of PYTHONPATH (docs/policies.md)",
        ) from error
    return made  # type: ignore[no-any-return]


class Policies:
    """The policies of one broker, and the thread that they run on."""

    def __init__(
        self, loaded: Mapping[str, Policy], timeout_ms: int, thread: Executor, timers: Timers
    ) -> None:
        self._loaded = loaded
        self._timeout_ms = timeout_ms
        self._thread = thread
        self._timers = timers

    def watches(self, setting: str) -> bool:
        """Whether there is a policy of this kind."""
        return setting in self._loaded

    async def decide(self, decide: "Callable[[Verdicts], Awaitable[R]]", failed: Callable[[Outcome], R]) -> R:
        """Make a decision with the verdicts that it needs."""
        verdicts = Verdicts(self)
        for _ in range(_ROUNDS_MAX):
            try:
                return await decide(verdicts)
            except Unasked:
                late = await self._ask(verdicts)
                if late is not None:
                    return failed(late)
        message = "The metadata changed again and again while the policy was asked: try again."
        return failed(Outcome(ErrorCode.REQUEST_TIMED_OUT, message))

    async def _ask(self, verdicts: "Verdicts") -> Outcome | None:
        """Answer what is open. The outcome of the whole request, if the policies take too long."""
        asked = list(verdicts.open.items())
        given_up = False

        def answer() -> list[Outcome | None]:
            return [Outcome() if given_up else self._answer(setting, question) for setting, question in kinds]

        kinds = [(one.setting, one.question) for _, one in asked]
        future = asyncio.get_running_loop().run_in_executor(self._thread, answer)
        late = asyncio.Event()
        future.add_done_callback(lambda _: late.set())
        timer = self._timers.call_later(self._timeout_ms, late.set)
        try:
            await late.wait()
        finally:
            timer.cancel()
            given_up = True
            if not future.done():
                future.cancel()  # not begun: it is not asked any more
        if future.cancelled():
            names = ", ".join(dict.fromkeys(name for name, _ in kinds))
            log.error("no answer of %s in %d ms: the request is refused", names, self._timeout_ms)
            return Outcome(
                ErrorCode.POLICY_VIOLATION,
                f"The policy ({names}) has not answered in {self._timeout_ms} ms: nothing was changed. Try "
                "again; if it stays so, the broker's administrator must see to the policy.",
            )
        for (key, _), outcome in zip(asked, future.result(), strict=True):
            verdicts.known[key] = outcome
        verdicts.open.clear()
        return None

    def _answer(self, setting: str, question: Question) -> Outcome | None:
        """What the policy says; None: it lets the request pass. On its thread."""
        try:
            self._loaded[setting].validate(question)
        except PolicyViolation as violation:
            return Outcome(ErrorCode.POLICY_VIOLATION, _text(violation))
        except BaseException:
            log.exception("%s failed, which refuses the request: %s", setting, question)
            return Outcome(
                ErrorCode.UNKNOWN_SERVER_ERROR,
                f"The broker's policy ({setting}) failed, and nothing was changed; its log says why.",
            )
        return None

    def close(self) -> None:
        """Let the thread end; a policy that hangs is not waited for."""
        self._thread.shutdown(wait=False, cancel_futures=True)


def _text(violation: PolicyViolation) -> str:
    try:
        return str(violation)[:_MESSAGE_CHARACTERS_MAX] or ErrorCode.POLICY_VIOLATION.message
    except Exception:
        return ErrorCode.POLICY_VIOLATION.message


class _Open(NamedTuple):
    setting: str
    question: Question


class Verdicts:
    """What the policies have said about one request."""

    def __init__(self, policies: Policies) -> None:
        self._policies = policies
        self.known: dict[_Key, Outcome | None] = {}
        self.open: dict[_Key, _Open] = {}

    def about_topic(
        self,
        topic: str,
        num_partitions: int | None,
        replication_factor: int | None,
        assignments: Mapping[int, Sequence[int]] | None,
        configs: Mapping[str, str | None],
    ) -> None:
        """Refusal: the policy forbids this topic."""
        if self._policies.watches(CREATE):
            self._look(
                CREATE,
                CreateTopicRequest(
                    topic,
                    num_partitions,
                    replication_factor,
                    None
                    if assignments is None
                    else MappingProxyType(
                        {index: tuple(replicas) for index, replicas in assignments.items()}
                    ),
                    MappingProxyType(dict(configs)),
                ),
                (
                    num_partitions,
                    replication_factor,
                    None
                    if assignments is None
                    else tuple((index, tuple(replicas)) for index, replicas in assignments.items()),
                ),
            )

    def about_configs(self, kind: str, name: str, configs: Mapping[str, str | None]) -> None:
        """Refusal: the policy forbids these values."""
        if self._policies.watches(ALTER):
            self._look(ALTER, AlterConfigRequest(kind, name, MappingProxyType(dict(configs))), (kind,))

    def _look(self, setting: str, question: Question, counts: tuple[object, ...]) -> None:
        name = question.topic if isinstance(question, CreateTopicRequest) else question.resource_name
        key = (setting, name, counts, tuple(question.configs.items()))
        if key not in self.known:
            self.open[key] = _Open(setting, question)
        elif (outcome := self.known[key]) is not None:
            raise Refusal(outcome.error_code, outcome.message)

    def check_complete(self) -> None:
        """Unasked: the decision rests on what no policy has answered yet."""
        if self.open:
            raise Unasked


def complete(verdicts: Verdicts | None) -> None:
    """Unasked, as above; at the end of a decision."""
    if verdicts is not None:
        verdicts.check_complete()
