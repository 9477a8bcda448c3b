"""How the cluster is, and why: from brokers' own verdicts where they are ours, else from the metadata.

A broker of ours names its causes with remedies (its /health). Of any Kafka cluster the metadata shows
partitions without a leader, copies that lag, and a controller that is missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from moldau.client.admin.layout import Place
from moldau.services.console.facts.snapshot import Snapshot

OK, DEGRADED, FAILING, UNKNOWN = "ok", "degraded", "failing", "unknown"
_RANK = {OK: 0, UNKNOWN: 1, DEGRADED: 2, FAILING: 3}
_NAMED_MAX = 3


class Cause(NamedTuple):
    """One reason; `severity`: warn or fail; `where` is a broker or empty."""

    severity: str
    name: str
    message: str
    remedy: str
    where: str = ""


class Verdict(NamedTuple):
    """The word and its causes, the worst first. `source` says who says so."""

    word: str
    causes: tuple[Cause, ...]
    source: str


def verdict_of(snapshot: Snapshot, told: Mapping[int, Mapping[str, Any]], unreached: str = "") -> Verdict:
    """The verdict; `told` has what brokers say of themselves, by id; `unreached`: why the snapshot is old."""
    causes = [*_of_brokers(told), *_of_metadata(snapshot, covered=bool(told))]
    if unreached:
        remedy = "See that the brokers run, and that their addresses lead to them (`moldau doctor`)."
        causes.append(Cause("fail", "unreachable", f"The cluster does not answer: {unreached}", remedy))
    causes.sort(key=lambda each: each.severity != "fail")
    word = FAILING if any(each.severity == "fail" for each in causes) else DEGRADED if causes else OK
    source = f"told by {_names(sorted(told))}" if told else "from the cluster's metadata"
    return Verdict(word, tuple(causes), source)


def _of_brokers(told: Mapping[int, Mapping[str, Any]]) -> list[Cause]:
    found: dict[tuple[str, str], Cause] = {}
    for broker, health in sorted(told.items()):
        for each in health.get("causes") or ():
            if not isinstance(each, Mapping):
                continue
            message = str(each.get("message", ""))
            key = str(each.get("name", "")), message
            where = f"broker {broker}"
            if key in found:
                where = f"{found[key].where}, {broker}"
            severity = "fail" if str(each.get("severity", "")).lower() == "fail" else "warn"
            found[key] = Cause(severity, key[0], message, str(each.get("remedy", "")), where)
    return list(found.values())


def _of_metadata(snapshot: Snapshot, *, covered: bool) -> list[Cause]:
    """What the metadata shows; `covered`: brokers have told what concerns copies themselves."""
    causes = []
    if snapshot.controller_id < 0:
        causes.append(
            Cause(
                "fail",
                "no-controller",
                "No broker is the controller: topics cannot be created or changed, leaders not elected.",
                "Wait a moment for the election; if it stays, look at the brokers' logs.",
            )
        )
    if covered:
        return causes
    if snapshot.offline:
        what = _partitions(snapshot.offline)
        causes.append(
            Cause(
                "fail",
                "offline-partitions",
                f"{what} without a leader: nothing can be read from or written to them.",
                "Start the brokers that hold their copies, or repair their log directories.",
            )
        )
    offline = set(snapshot.offline)
    lagging = [each for each in snapshot.under_replicated if each not in offline]
    if lagging:
        gone = sorted(
            {
                replica
                for topic in snapshot.topics.values()
                for part in topic.partitions
                for replica in part.replicas
                if replica not in snapshot.brokers
            }
        )
        why = f" {_names(gone).capitalize()} cannot be seen." if gone else ""
        causes.append(
            Cause(
                "warn",
                "under-replicated",
                f"{_partitions(lagging)} with fewer copies in sync than they should have.{why}",
                "Start the brokers that are missing; where all run, look at their disks and network.",
            )
        )
    return causes


def _partitions(places: Sequence[Place]) -> str:
    names = ", ".join(f"{topic}-{index}" for topic, index in places[:_NAMED_MAX])
    more = f" and {len(places) - _NAMED_MAX:,} more" if len(places) > _NAMED_MAX else ""
    return f"{len(places):,} partition{'s' if len(places) != 1 else ''} ({names}{more})"


def _names(brokers: Sequence[int]) -> str:
    if len(brokers) == 1:
        return f"broker {brokers[0]}"
    return f"brokers {', '.join(map(str, brokers))}"


def worst(words: Sequence[str]) -> str:
    """The worst of several verdicts."""
    return max(words, key=lambda each: _RANK.get(each, 1), default=UNKNOWN)
