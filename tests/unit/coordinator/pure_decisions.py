"""Watches that deciding changes nothing: groups and deadlines are the same before and after a decision, and
change only when its result is applied."""

from collections.abc import Callable
from typing import Any

from moldau.broker.coordinator.group.classic.group import ClassicGroup
from moldau.broker.coordinator.group.shard import GroupShard
from moldau.broker.coordinator.result import Result
from moldau.broker.coordinator.runtime import CoordinatorRuntime

Operation = Callable[[GroupShard, int], Result[Any]]


def watch_decisions(runtime: CoordinatorRuntime[GroupShard]) -> None:
    """Check every decision of this runtime from now on. Call it before the first election."""
    decide, submit, make_state = runtime.decide, runtime.submit, runtime._make_state

    def watched_decide(index: int, operation: Operation, *arguments: Any) -> Any:
        return decide(index, _watched(operation), *arguments)

    def watched_submit(index: int, operation: Operation) -> None:
        submit(index, _watched(operation))

    def watched_state(index: int, leader_epoch: int) -> GroupShard:
        shard = make_state(index, leader_epoch)
        due = shard.due

        def watched_due(key: Any, now_ms: int) -> Result[Any]:
            return _watched(lambda _shard, now_ms: due(key, now_ms))(shard, now_ms)

        shard.due = watched_due  # type: ignore[method-assign]
        return shard

    runtime.decide = watched_decide  # type: ignore[method-assign, assignment]
    runtime.submit = watched_submit  # type: ignore[method-assign]
    runtime._make_state = watched_state


def _watched(operation: Operation) -> Operation:
    def run(shard: GroupShard, now_ms: int) -> Result[Any]:
        groups = dict(shard.groups)
        memory = {group_id: _memory(group) for group_id, group in groups.items()}
        deadlines = dict(shard.deadlines._at_ms)
        result = operation(shard, now_ms)
        assert dict(shard.groups) == groups, "a decision added or removed a group"
        for group_id, group in groups.items():
            assert _memory(group) == memory[group_id], "a decision changed a group"
        assert shard.deadlines._at_ms == deadlines, "a decision moved a deadline"
        return result

    return run


def _memory(group: Any) -> Any:
    """What lives in memory: a classic group's membership (members are immutable), a consumer group's notes of
    what it has to look at again."""
    if not isinstance(group, ClassicGroup):
        return group.topics_changed, group.regexes_checked_at_ms, dict(group.members), dict(group.targets)
    held = {
        name: dict(value) if isinstance(value, dict) else set(value) if name == "pending_joins" else value
        for name, value in vars(group.membership).items()
    }
    return id(group.membership), held
