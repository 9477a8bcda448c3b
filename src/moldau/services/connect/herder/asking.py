"""Work on the herder's loop that a request waits for, and what the requester is told where it fails."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import CancelledError
from concurrent.futures import TimeoutError as FutureTimeout
from typing import TypeVar

from moldau.services.connect.herder.interface import HerderProblem
from moldau.services.connect.herder.loop import Loop, Overloaded
from moldau.services.connect.herder.problems import bad_request, failed, rebalancing
from moldau.services.connect.stores.kafka_log import LogFailed, NotWritten

ResultT = TypeVar("ResultT")
REQUEST_SECONDS = 90.0


def asked(loop: Loop, work: Callable[[], ResultT]) -> ResultT:
    """Its result, run on the loop. HerderProblem."""
    try:
        return loop.call(work).result(REQUEST_SECONDS)
    except FutureTimeout:
        raise failed(
            "Request timed out. The worker is busy, or its topics cannot be read or written: see its log"
        ) from None
    except CancelledError:
        raise failed("the worker stops") from None
    except Overloaded as problem:
        raise failed(str(problem)) from None
    except LogFailed as problem:
        raise problem_of(problem) from None


def problem_of(problem: LogFailed) -> HerderProblem:
    """A topic that was not read or written, as an answer."""
    if isinstance(problem, NotWritten):
        if problem.fenced:
            return rebalancing()
        if problem.too_large:
            return bad_request(str(problem))
    return failed(str(problem))
