"""Value checks: functions that return an error message in Kafka's wording, or None."""

import re
from collections.abc import Sequence

from moldau.common.core.principals import parse_super_users
from moldau.common.settings.rows import Check

_CLEANER_BYTES_A_THREAD = 1_048_576


def at_least(low: float) -> tuple[Check, str]:
    """Numbers from `low` upwards."""

    def check(value: float) -> str | None:
        return f"Value must be at least {low}" if value < low else None

    return check, f"[{low},...]"


def between(low: float, high: float) -> tuple[Check, str]:
    """Numbers from `low` to `high`, both included."""

    def check(value: float) -> str | None:
        if value < low:
            return f"Value must be at least {low}"
        return f"Value must be no more than {high}" if value > high else None

    return check, f"[{low},...,{high}]"


def one_of(*choices: str) -> tuple[Check, str]:
    """One of these values."""
    listed = ", ".join(choices)

    def check(value: str) -> str | None:
        return None if value in choices else f"String must be one of: {listed}"

    return check, f"[{listed}]"


def one_of_any_case(*choices: str) -> tuple[Check, str]:
    """One of these values, in upper or lower case."""
    listed = ", ".join(choices)
    lowered = {choice.lower() for choice in choices}

    def check(value: str) -> str | None:
        return None if value.lower() in lowered else f"String must be one of (case insensitive): {listed}"

    return check, f"(case insensitive) [{listed}]"


def each_of(*choices: str) -> tuple[Check, str]:
    """A list (possibly empty) of these values, each at most once."""
    listed = ", ".join(choices)

    def check(values: Sequence[str]) -> str | None:
        if any(value not in choices for value in values):
            return f"String must be one of: {listed}"
        return "The list must not hold a value twice" if len(set(values)) < len(values) else None

    return check, f"[{listed}]"


def filled() -> tuple[Check, str]:
    """A non-empty list without empty entries."""

    def check(values: Sequence[str]) -> str | None:
        if not values:
            return "The list must not be empty"
        return None if all(values) else "The list must not hold an empty entry"

    return check, "non-empty list"


def throttled_replicas() -> tuple[Check, str]:
    """`*`, or a list of partition:broker pairs."""

    def check(values: Sequence[str]) -> str | None:
        if tuple(values) in ((), ("*",), ("none",)):
            return None
        for value in values:
            left, colon, right = value.partition(":")
            if not (colon and left.isdigit() and right.isdigit()):
                return (
                    "Value must be the literal '*' or a list of partitionId:brokerId,partitionId:brokerId,..."
                )
        return None

    return check, "[partitionId]:[brokerId],[partitionId]:[brokerId],... or *"


def principals() -> tuple[Check, str]:
    """Principals (type:name), separated by semicolons."""

    def check(value: str) -> str | None:
        try:
            parse_super_users(value)
        except ValueError as error:
            return str(error)
        return None

    return check, "type:name;type:name;..."


def cleaner_complaint(threads: int, dedupe_buffer_size: int) -> str | None:
    """What is wrong with log.cleaner.threads and log.cleaner.dedupe.buffer.size together."""
    if threads and dedupe_buffer_size // threads <= _CLEANER_BYTES_A_THREAD:
        return "log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread."
    return None


OFF = "off"


def address_or_off() -> tuple[Check, str]:
    """host:port; empty or `off`: none."""

    def check(value: str) -> str | None:
        _, colon, port = value.rpartition(":")
        if value in ("", OFF) or (colon and port.isascii() and port.isdigit() and int(port) <= 65_535):
            return None
        return "Expected host:port, for example 127.0.0.1:9640, or off"

    return check, "host:port or off"


def address_counts() -> tuple[Check, str]:
    """Pairs address:count, separated by commas; `counts_of` reads them."""

    def check(value: str) -> str | None:
        try:
            counts_of(value)
        except ValueError as error:
            return str(error)
        return None

    return check, "[address:count,...]"


def counts_of(value: str) -> dict[str, int]:
    """The counts by address, of a text that `address_counts` takes. ValueError."""
    found: dict[str, int] = {}
    for pair in value.split(","):
        if pair.strip():
            host, _, count = pair.strip().rpartition(":")
            if not host or not count.isdigit():
                raise ValueError(f"'{pair.strip()}' is not address:count, for example 10.0.0.7:100")
            found[host.strip("[]")] = int(count)
    return found


def share_offset_reset() -> tuple[Check, str]:
    """Where a share group begins."""

    def check(value: str) -> str | None:
        if value in ("latest", "earliest") or duration_ms(value) is not None:
            return None
        return "the value should be one of latest, earliest, by_duration:PnDTnHnMn.nS (not negative)"

    return check, "[latest, earliest, by_duration:PnDTnHnMn.nS]"


_BY_DURATION = re.compile(
    r"by_duration:P(?=.)(?:(\d{1,9})D)?(?:T(?=.)(?:(\d{1,9})H)?(?:(\d{1,9})M)?(?:(\d{1,12}(?:\.\d{1,9})?)S)?)?",
    re.IGNORECASE | re.ASCII,
)


def duration_ms(value: str) -> int | None:
    """The milliseconds of `by_duration:` with an ISO 8601 duration of days, hours, minutes and seconds; None
    if it is none."""
    found = _BY_DURATION.fullmatch(value)
    if found is None:
        return None
    days, hours, minutes, seconds = (float(each or 0) for each in found.groups())
    return int((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000)
