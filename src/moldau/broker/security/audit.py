"""Who was refused what, and who changed what: the events of the audit, and how often they are told.

    denied    each decision against a client (and, where asked for, each for it)
    changed   each administrative request that was carried out or refused, with the names it was about

A client that is refused ten thousand times a second must not fill the disk, nor push out the lines of others.
So the first refusal of each kind (who, from where, what, which resource) is told at once, further ones are
counted, and the count follows every minute. Kinds are the client's choice, too: beyond `KINDS_MAX` in a
minute refusals are counted by principal and host, and beyond that all together. No refusal is lost from the
counts. What was changed is always told; requests in which nothing was done are counted after the first few of
a minute.

Names are a client's choice: what is not printable is escaped, what holds a blank is quoted, so that nobody
forges a line or a field of one. Lines follow those of Kafka's `kafka.authorizer.logger`.

Not here: where events go when it is a topic (peers/audit_topic.py), what a request was about
(parts/administrative.py).
"""

import json
import logging
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Any, NamedTuple, Protocol

from moldau.common.core.timers import TimerHandle, Timers
from moldau.common.protocol.errors import error_name
from moldau.common.protocol.operations import Operation, ResourceType

log = logging.getLogger("moldau.audit")

INTERVAL_MS = 60_000
KINDS_MAX = 1_000
NAMES_MAX = 20
"""So many names of each outcome are written of one request."""
NAME_CHARACTERS_MAX = 300
WRITTEN_AT_ONCE = 32
"""So many counts are written at a turn of the loop: a line takes some 20 µs."""
FAILED_CHANGES_MAX = 20
"""So many requests of one kind by one client, in which nothing was done, are told one by one in a minute."""

_TYPES: Mapping[int, str] = {
    int(each): "".join(word.capitalize() for word in each.name.split("_")) for each in ResourceType
}

Outcome = tuple[str | Callable[[], str], int]
"""A name, or what makes it, and an error code."""
Event = dict[str, Any]
"""A JSON object; `event` is denied, allowed or changed."""


class Client(Protocol):
    """What an event tells of a session."""

    principal: str
    client_host: str
    client_id: str
    listener: str


class Sink(Protocol):
    """Where events go."""

    def write(self, event: Event) -> None:
        """Take one event; never raises."""


class LogSink:
    """Writes events to the log `moldau.audit`, one line each."""

    def write(self, event: Event) -> None:
        """Write the line."""
        log.info("%s", line_of(event))


class _Kind(NamedTuple):
    principal: str
    host: str
    listener: str
    allowed: bool
    operation: int
    resource_type: int
    name: str


class AuditTrail:
    """Makes events, counts repeated ones, and hands them to a sink."""

    def __init__(
        self,
        sink: Sink,
        timers: Timers,
        now_ms: Callable[[], int],
        *,
        node_id: int,
        allowed_too: bool = False,
        untold_topic: str = "",
    ) -> None:
        """`now_ms`: the time of day. `untold_topic`: the audit's own, whose writes are no events."""
        self.allowed_too = allowed_too
        self._sink = sink
        self._timers = timers
        self._now_ms = now_ms
        self._node_id = node_id
        self._untold_topic = untold_topic
        self._repeats: dict[_Kind, int] = {}
        self._crowd: dict[tuple[str, str], int] = {}
        self._others = 0
        self._failed: dict[tuple[str, str, str, str], int] = {}
        self._timer: TimerHandle | None = None
        self._pending: Iterator[Event] = iter(())  # counts that are being written

    def decided(
        self, client: Client, operation: int, resource_type: int, name: str, *, allowed: bool
    ) -> None:
        """A client was allowed or refused an operation. The name is "" for any resource of the type."""
        if allowed and name == self._untold_topic and resource_type == ResourceType.TOPIC:
            return  # each event would make the next one
        kind = _Kind(
            client.principal,
            client.client_host,
            client.listener,
            allowed,
            operation,
            resource_type,
            name[:NAME_CHARACTERS_MAX],
        )
        count = self._repeats.get(kind)
        if count is not None:
            self._repeats[kind] = count + 1
        elif len(self._repeats) < KINDS_MAX:
            self._repeats[kind] = 0
            self._write(self._decision(kind, client_id=client.client_id))
        else:
            self._count_in_crowd((client.principal, client.client_host))
        self._start_timer()

    def changed(
        self, client: Client, request: str, outcomes: Iterable[Outcome | None]
    ) -> Generator[None, None, None]:
        """An administrative request was answered: what it was about, and the error code of each; looked
        through in steps. None: nothing, but a step."""
        named: dict[int, list[str]] = {}
        counts: dict[int, int] = {}
        for outcome in outcomes:
            yield
            if outcome is None:
                continue
            name, error_code = outcome
            counts[error_code] = counts.get(error_code, 0) + 1
            names = named.setdefault(error_code, [])
            if len(names) < NAMES_MAX:
                names.append((name if isinstance(name, str) else name())[:NAME_CHARACTERS_MAX])
        if 0 not in counts and not self._may_tell_failure(client, request):
            return
        self._write(
            {
                **self._who("changed", client.principal, client.client_host, client.listener),
                "client_id": client.client_id[:NAME_CHARACTERS_MAX],
                "request": request,
                "outcomes": {error_name(code): names for code, names in named.items()},
                "counts": {error_name(code): count for code, count in counts.items()},
            }
        )

    def _may_tell_failure(self, client: Client, request: str) -> bool:
        """Count a request in which nothing was done."""
        self._start_timer()
        kind = (client.principal, client.client_host, client.listener, request)
        count = self._failed.get(kind)
        if count is None and len(self._failed) >= KINDS_MAX:
            self._count_in_crowd(kind[:2])
            return False
        self._failed[kind] = (count or 0) + 1
        return self._failed[kind] <= FAILED_CHANGES_MAX

    def _start_timer(self) -> None:
        if self._timer is None:
            self._timer = self._timers.call_later(INTERVAL_MS, self._write_counts)

    def close(self) -> None:
        """Tell what has been counted until now."""
        if self._timer is not None:
            self._timer.cancel()
            self._begin_counts()
        for event in self._pending:
            self._write(event)

    def _count_in_crowd(self, who: tuple[str, str]) -> None:
        if who in self._crowd or len(self._crowd) < KINDS_MAX:
            self._crowd[who] = self._crowd.get(who, 0) + 1
        else:
            self._others += 1

    def _write_counts(self) -> None:
        """Every minute: what was counted, some at a turn of the loop."""
        self._begin_counts()
        if self._repeats:
            self._start_timer()
        self._write_some()

    def _write_some(self) -> None:
        events = list(islice(self._pending, WRITTEN_AT_ONCE))
        for event in events:
            self._write(event)
        if len(events) == WRITTEN_AT_ONCE:
            self._timers.call_later(0, self._write_some)

    def _begin_counts(self) -> None:
        """What was not repeated is forgotten, and is told at once when it comes again."""
        self._timer = None
        repeats = [(kind, count) for kind, count in self._repeats.items() if count]
        self._repeats = dict.fromkeys([kind for kind, _ in repeats], 0)
        counts = self._counts(repeats, self._crowd, self._failed, self._others)
        self._pending = chain(self._pending, counts)
        self._crowd, self._others, self._failed = {}, 0, {}

    def _counts(
        self,
        repeats: list[tuple[_Kind, int]],
        crowd: dict[tuple[str, str], int],
        failed: dict[tuple[str, str, str, str], int],
        others: int,
    ) -> Iterator[Event]:
        for kind, count in repeats:
            yield self._decision(kind, repeated=count)
        for (principal, host), count in crowd.items():
            yield {**self._who("denied", principal, host, ""), "resource_type": "", "repeated": count}
        for (principal, host, listener, request), count in failed.items():
            if count > FAILED_CHANGES_MAX:
                who = self._who("changed", principal, host, listener)
                told = {"outcomes": {}, "counts": {}, "repeated": count - FAILED_CHANGES_MAX}
                yield {**who, "request": request, **told}
        if others:
            yield {**self._who("denied", "", "", ""), "resource_type": "", "repeated": others}

    def _who(self, event: str, principal: str, host: str, listener: str) -> Event:
        return {
            "event": event,
            "time_ms": self._now_ms(),
            "node_id": self._node_id,
            "principal": principal,
            "host": host,
            "listener": listener,
        }

    def _decision(self, kind: _Kind, *, client_id: str | None = None, repeated: int = 0) -> Event:
        event = {
            **self._who("allowed" if kind.allowed else "denied", kind.principal, kind.host, kind.listener),
            "operation": Operation(kind.operation).name,
            "resource_type": _TYPES[kind.resource_type],
            "resource": kind.name,
        }
        if client_id is not None:
            event["client_id"] = client_id[:NAME_CHARACTERS_MAX]
        if repeated:
            event["repeated"] = repeated
        return event

    def _write(self, event: Event) -> None:
        self._sink.write(event)


def line_of(event: Event) -> str:
    """The event as a line of the log."""
    who = f"Principal = {plain(event['principal'])}"
    if event["event"] == "changed":
        counts = event["counts"]
        parts = [
            f"{error}: {', '.join(plain(name) for name in names)}"
            + (f" and {counts[error] - len(names)} more" if counts[error] > len(names) else "")
            for error, names in event["outcomes"].items()
        ]
        if "repeated" in event:
            parts = [f"refused ({event['repeated']} more times in the last minute)"]
        return f"{who} from host = {event['host']} request = {event['request']} {'; '.join(parts)}"
    repeated = f" ({event['repeated']} more times in the last minute)" if "repeated" in event else ""
    decision = "Allowed" if event["event"] == "allowed" else "Denied"
    if not event["resource_type"]:
        who = who if event["principal"] else "Other principals are"
        return f"{who} {decision} further operations from host = {event['host'] or '*'}{repeated}"
    resource = f"{event['resource_type']}:LITERAL:{plain(event['resource'] or '(any)')}"
    return (
        f"{who} is {decision} operation = {event['operation']} from host = {event['host']} on resource = "
        f"{resource} on listener = {event['listener']}{repeated}"
    )


def plain(text: str) -> str:
    """A name within a line: quoted and escaped, if it would not be read as one word."""
    if text.isprintable() and text and not any(each in text for each in ' "\\,;'):
        return text
    return json.dumps(text)
