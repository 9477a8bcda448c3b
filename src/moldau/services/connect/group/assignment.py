"""Who gets what: every worker keeps what it has, as far as all have the same number (or one more).

    held by workers ──> revoked: what is not wanted any more, what two have, what is too much for one
    wanted, held by nobody ──> assigned at once: to who had it before, else to who has least

What is revoked is assigned to nobody in the same round: its worker lets go, joins again, and the next round
gives it away. So nothing runs twice. Connectors and tasks are counted apart. There is no waiting for a
worker that is gone (Kafka waits five minutes): its work moves at once. When it comes back, some of what is
too much for the others is revoked from them, and first what it had.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from moldau.services.connect.group.protocol import CONNECTOR, Work
from moldau.services.connect.runtime.interface import TaskId


@dataclass(frozen=True, slots=True)
class Share:
    """What changes for one worker."""

    assigned: Work
    revoked: Work


def assign(held: Mapping[str, Work], wanted: Work, before: Mapping[str, Work]) -> dict[str, Share]:
    """By worker. `held`: what each has now; `before`: what each had when it was last seen."""
    keeping: dict[str, set[TaskId]] = {}
    taken: set[TaskId] = set()
    for worker in sorted(held):
        keeping[worker] = {each for each in held[worker] if each in wanted and each not in taken}
        taken |= keeping[worker]
    assigned: dict[str, set[TaskId]] = {worker: set() for worker in keeping}
    for is_connector in (True, False):
        kind = {each for each in wanted if (each.task == CONNECTOR) is is_connector}
        own = {worker: keeping[worker] & kind for worker in keeping}
        targets = _targets(own, len(kind), before)
        _release(own, targets, before)
        for worker in keeping:
            keeping[worker] -= kind - own[worker]
        for worker, given in _given(own, targets, sorted(kind - taken), before).items():
            assigned[worker] |= given
    return {
        worker: Share(frozenset(assigned[worker]), frozenset(held[worker] - keeping[worker]))
        for worker in keeping
    }


def _targets(own: Mapping[str, set[TaskId]], total: int, before: Mapping[str, Work]) -> dict[str, int]:
    """How many each shall have: those that have most get one more, where it does not divide."""
    if not own:
        return {}
    floor, more = divmod(total, len(own))
    order = sorted(own, key=lambda worker: (-len(own[worker]), -len(before.get(worker, ())), worker))
    return {worker: floor + (index < more) for index, worker in enumerate(order)}


def _release(own: Mapping[str, set[TaskId]], targets: Mapping[str, int], before: Mapping[str, Work]) -> None:
    """Take from those that have too much; first what a worker that has too little had before."""
    claimed = {
        each for worker in own if len(own[worker]) < targets[worker] for each in before.get(worker, ())
    }
    for worker, mine in own.items():
        surplus = len(mine) - targets[worker]
        if surplus > 0:
            order = sorted(mine, key=lambda each: (each not in claimed, -each.task, each.connector))
            mine.difference_update(order[:surplus])


def _given(
    own: Mapping[str, set[TaskId]],
    targets: Mapping[str, int],
    free: Iterable[TaskId],
    before: Mapping[str, Work],
) -> dict[str, set[TaskId]]:
    room = {worker: targets[worker] - len(own[worker]) for worker in own}
    given: dict[str, set[TaskId]] = {worker: set() for worker in own}
    left = []
    for each in free:
        owner = next(
            (worker for worker in sorted(own) if room[worker] > 0 and each in before.get(worker, ())), None
        )
        if owner is None:
            left.append(each)
        else:
            given[owner].add(each)
            room[owner] -= 1
    for each in left:
        worker = max(sorted(room), key=lambda name: room[name])
        if room[worker] > 0:  # always: there is as much room as there is work
            given[worker].add(each)
            room[worker] -= 1
    return given
