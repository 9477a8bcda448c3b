"""The levels of the broker's loggers, which Kafka's tools read and set as resource type BROKER_LOGGER
(KIP-412).

Levels apply to this process; they are not stored, and a restart resets them. Kafka's names are mapped to
Python's levels; TRACE lies below DEBUG, and FATAL is CRITICAL. No API is registered here.
"""

import logging
from collections.abc import Sequence

from moldau.broker.controller.configs import Operation
from moldau.broker.controller.decision import DONE, Outcome, Refusal
from moldau.common.protocol.errors import ErrorCode

ROOT = "root"
LEVELS = {
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": logging.DEBUG - 5,
}


def levels() -> dict[str, str]:
    """The level of the root logger and of each of the broker's loggers, by name."""
    names = [ROOT, *sorted(name for name in logging.root.manager.loggerDict if _ours(name))]
    return {name: _level_name(_logger(name).getEffectiveLevel()) for name in names}


def alter(operations: Sequence[tuple[str, int, str | None]], *, validate_only: bool) -> Outcome:
    """Set levels, or (delete) inherit the parent's again; all of them or none."""
    try:
        for name, operation, value in operations:
            _check(name, operation, value)
    except Refusal as refusal:
        return refusal.outcome
    if not validate_only:
        for name, operation, value in operations:
            level = logging.NOTSET if operation == Operation.DELETE else LEVELS[str(value)]
            _logger(name).setLevel(level)
    return DONE


def _check(name: str, operation: int, value: str | None) -> None:
    if operation not in (Operation.SET, Operation.DELETE):
        raise Refusal(
            ErrorCode.INVALID_REQUEST, "Only SET and DELETE are allowed for the BROKER_LOGGER resource"
        )
    if name not in levels():
        raise Refusal(ErrorCode.INVALID_CONFIG, f"Logger {name} does not exist!")
    if operation == Operation.DELETE:
        if name == ROOT:
            raise Refusal(
                ErrorCode.INVALID_REQUEST, "Removing the log level of the root logger is not allowed"
            )
    elif value not in LEVELS:
        raise Refusal(
            ErrorCode.INVALID_CONFIG,
            f"Cannot set the log level of {name} to {value} as it is not a supported log level. "
            f"Valid log levels are {', '.join(LEVELS)}",
        )


def _ours(name: str) -> bool:
    return name == "moldau" or name.startswith("moldau.")


def _logger(name: str) -> logging.Logger:
    return logging.getLogger() if name == ROOT else logging.getLogger(name)


def _level_name(level: int) -> str:
    for name, number in LEVELS.items():
        if level >= number:
            return name
    return "TRACE"
