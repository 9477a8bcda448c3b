"""What the herder says, in Kafka's JSON."""

from __future__ import annotations

from typing import Any

from moldau.services.connect.herder.interface import ConnectorInfo, ConnectorStatus, Placed


def info_json(info: ConnectorInfo) -> dict[str, Any]:
    """ConnectorInfo."""
    return {
        "name": info.name,
        "config": dict(info.config),
        "tasks": [{"connector": task.connector, "task": task.task} for task in info.tasks],
        "type": info.kind,
    }


def status_json(status: ConnectorStatus) -> dict[str, Any]:
    """ConnectorStateInfo; beside Kafka's fields a task has its engine, and when it starts again by itself."""
    return {
        "name": status.name,
        "connector": placed_json(status.connector),
        "tasks": [{"id": number, **placed_json(task)} for number, task in sorted(status.tasks.items())],
        "type": status.kind,
    }


def placed_json(placed: Placed) -> dict[str, Any]:
    """A state and where."""
    status = placed.status
    found: dict[str, Any] = {"state": status.state.value, "worker_id": placed.worker_id}
    if status.trace:
        found["trace"] = status.trace
    if status.version:
        found["version"] = status.version
    if status.engine:
        found["engine"] = status.engine
    if status.engine_why:
        found["engine_reason"] = status.engine_why
    if status.restarts_at_ms is not None:
        found["restarts_at_ms"] = status.restarts_at_ms
    return found
