"""Why the herder refuses something, in Kafka Connect's words."""

from __future__ import annotations

from moldau.services.connect.herder.interface import HerderProblem, NotLeader

_CONFLICT = "Cannot complete request because of a conflicting operation (e.g. worker rebalance)"


def not_found(message: str) -> HerderProblem:
    """There is no such connector or task."""
    return HerderProblem(404, message)


def bad_request(message: str) -> HerderProblem:
    """It asks for something that makes no sense."""
    return HerderProblem(400, message)


def failed(message: str) -> HerderProblem:
    """Kafka, a file or another worker does not do what is needed."""
    return HerderProblem(500, message)


def rebalancing() -> HerderProblem:
    """Work is being distributed anew: the same request may succeed in a moment."""
    return HerderProblem(409, _CONFLICT)


def elsewhere(url: str) -> NotLeader:
    """Another worker, at this URL, has to do it; empty: nobody knows who."""
    return NotLeader(_CONFLICT, url.rstrip("/"))
