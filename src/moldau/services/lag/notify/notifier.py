"""A thread a notifier: looks at every group of every cluster, and sends what is due.

A channel that is slow or broken holds up only itself; of what it was not told it is told at its next look.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from moldau.common.settings.rows import SettingError
from moldau.services.lag.notify.channels import Deliver, NotDelivered, channel_of
from moldau.services.lag.notify.incidents import Incidents, Notice, Rule
from moldau.services.lag.notify.messages import facts_of
from moldau.services.lag.settings import NotifierSettings
from moldau.services.lag.store import ClusterStore, GroupStatus
from moldau.services.lag.verdicts import Verdict

log = logging.getLogger("moldau.lag.notify")


class Notifier:
    """One notifier."""

    def __init__(
        self,
        settings: NotifierSettings,
        stores: Iterable[ClusterStore],
        *,
        clock: Callable[[], float] = time.time,
        make_id: Callable[[], str] = lambda: str(uuid.uuid4()),
    ) -> None:
        """SettingError."""
        self.name = settings.name
        self.delivered = self.failed = 0
        wanted = settings.given.get("cluster")
        self._stores = [each for each in stores if not wanted or each.name == wanted]
        if wanted and not self._stores:
            raise SettingError(
                "cluster", f"[notifier.{settings.name}] names the cluster {wanted}: there is none"
            )
        self._accepts = settings.accepts
        self._extras: Mapping[str, Any] = settings.given.get("extras", {})
        self._deliver: Deliver = channel_of(settings.name, settings.kind, settings.given)
        self._clock = clock
        self._rule = rule_of(settings.given)
        self._incidents = Incidents(self._rule, make_id)
        self._last: dict[tuple[str, str], GroupStatus] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"lag-notify-{self.name}", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """End; what is being sent may end by its own limit."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(10)

    def _run(self) -> None:
        while not self._stopping.wait(self._rule.interval):
            try:
                self.look()
            except Exception:
                log.exception("the notifier %s failed", self.name)

    def look(self) -> None:
        """Judge every group once, and send what is due."""
        now_ms = int(self._clock() * 1000)
        known = set()
        for store in self._stores:
            for group in store.groups():
                if self._stopping.is_set() or not self._accepts(group):
                    continue
                status = store.status(group, now_ms)
                if status is not None:
                    known.add((store.name, group))
                    self._look_at(status, status.verdict, now_ms)
        for key in self._incidents.gone(known):
            last = self._last.get(key)
            if last is not None:
                self._look_at(last, Verdict.OK, now_ms)

    def _look_at(self, status: GroupStatus, verdict: Verdict, now_ms: int) -> None:
        notice = self._incidents.look(status.cluster, status.group, verdict, now_ms)
        key = (status.cluster, status.group)
        if verdict > Verdict.OK:
            self._last[key] = status
        elif notice is None:
            self._last.pop(key, None)
        if notice is not None:
            self._send(status, notice, now_ms)

    def _send(self, status: GroupStatus, notice: Notice, now_ms: int) -> None:
        try:
            self._deliver(facts_of(status, notice, self._extras, now_ms))
        except NotDelivered as problem:
            self.failed += 1
            log.warning("the notifier %s: %s", self.name, problem)
            return
        except Exception as problem:  # a template of the user's
            self.failed += 1
            log.warning("the notifier %s: %s: %s", self.name, type(problem).__name__, problem)
            return
        self.delivered += 1
        self._incidents.sent(status.cluster, status.group, notice, now_ms)


def rule_of(given: Mapping[str, Any]) -> Rule:
    """When a notifier speaks, from its section. SettingError."""
    interval = _positive(given, "interval", 60.0)
    threshold = given.get("threshold", int(Verdict.WARN))
    if isinstance(threshold, bool) or not isinstance(threshold, int) or not 1 <= threshold <= 6:
        raise SettingError(
            "threshold", f"threshold = {threshold!r} is not a status from 1 (OK) to 6 (REWIND)"
        )
    return Rule(
        interval=interval,
        send_interval=_positive(given, "send-interval", interval),
        threshold=threshold,
        send_once=bool(given.get("send-once", False)),
        send_close=bool(given.get("send-close", False)),
    )


def _positive(given: Mapping[str, Any], name: str, default: float) -> float:
    value = given.get(name, default)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value <= 0:
        raise SettingError(name, f"{name} = {value!r} is not a number of seconds")
    return float(value)
