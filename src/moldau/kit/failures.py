"""What happens to a record whose handler raises.

It is tried again `retries` times with growing pauses. Then, with `on_error`:

    "stop"    what was handled before it is committed, and the handler's error ends the loop, with a note that
              names the record: after a restart it is the first one again
    "skip"    a warning; the loop goes on behind it
    function  called with the record and the error: it may raise to stop

With `dead_letters` a given-up record is written to that topic, with its cause and place in headers, and the
loop waits until it is there before it goes on. A list whose handler raised is given again record by record,
to find which one it was; at_most_once gives it up whole, because part of it may have been handled.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Literal

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from moldau.common.core.backoff import even_pauses
from moldau.common.core.message_headers import message_headers
from moldau.kit.client_config import Config, client_config, client_log, log, sentence
from moldau.kit.errors import BadCall, KitError
from moldau.kit.handlers import Attempt

_LONGEST_PAUSE_SECONDS = 30.0
_DEAD_LETTER_SECONDS = 120.0
_CAUSE_MAX = 1000
_CONSUMER_ONLY = (
    "auto.offset", "enable.partition", "fetch.", "group.", "heartbeat.", "isolation.", "max.poll",
    "partition.assignment", "queued.", "session.",
)  # fmt: skip


class Failures:
    """The rule for records whose handler raises."""

    def __init__(
        self,
        bootstrap_servers: str | None,
        config: Config,
        on_error: Literal["stop", "skip"] | Callable[[Message, Exception], None],
        retries: int,
        retry_seconds: float,
        dead_letters: str | None,
        is_stopped: Callable[[], bool],
        max_poll_interval_ms: int,
    ) -> None:
        if on_error not in ("stop", "skip") and not callable(on_error):
            raise BadCall(f"on_error={on_error!r} is neither 'stop' nor 'skip' nor a function(record, error)")
        if retries < 0 or retry_seconds < 0:
            raise BadCall("retries and retry_seconds must not be below 0")
        pauses_seconds = sum(islice(_pauses(retry_seconds), retries))
        if pauses_seconds * 1000 >= max_poll_interval_ms:
            raise BadCall(
                f"{retries} retries pause {pauses_seconds:.0f} s in all, longer than max.poll.interval.ms "
                f"({max_poll_interval_ms} ms): the group would give the partitions to others in between"
            )
        self._on_error = on_error
        self._retries = retries
        self._retry_seconds = retry_seconds
        self._dead_letters = dead_letters
        self._is_stopped = is_stopped
        self._producer_config = {
            name: value for name, value in config.items() if not name.startswith(_CONSUMER_ONLY)
        }
        self._bootstrap_servers = bootstrap_servers
        self._producer: Producer | None = None
        self.skipped_count = 0

    def handle(self, records: list[Message], attempt: Attempt, whole: bool = False) -> Iterator[int]:
        """Handle records; yields how many are done, each time that is known. Raises what ends the loop.

        `whole`: a failed list is given up as it is.
        """
        done, error = attempt(records, 0)
        yield done
        if error is not None and attempt.whole and len(records) > 1:
            if whole or not self._goes_on_after_errors():
                yield from self._give_up_list(records, attempt, error)
                return
            done, error = 0, None
            while done < len(records) and self._handle_one(records[done], attempt):
                done += 1
                yield done
        while error is not None:
            if not self._handle_one(records[done], attempt, error):
                return
            done, error = attempt(records, done + 1)
            yield done

    def _goes_on_after_errors(self) -> bool:
        return self._on_error != "stop" or self._dead_letters is not None

    def _give_up_list(self, records: list[Message], attempt: Attempt, error: Exception) -> Iterator[int]:
        again: Exception | None = error
        for seconds in islice(_pauses(self._retry_seconds), self._retries):
            if not self._pause(seconds):
                return
            _, again = attempt(records, 0)
            if again is None:
                yield len(records)
                return
        for index, one in enumerate(records):
            self._give_up(one, again or error, f" and {len(records) - 1} more" if not index else "")
            yield index + 1

    def _handle_one(self, record: Message, attempt: Attempt, error: Exception | None = None) -> bool:
        """Handle one record, or give it up; False if neither was done because the loop is to end."""
        done = 0
        if error is None:
            done, error = attempt([record], 0)
        for seconds in islice(_pauses(self._retry_seconds), self._retries):
            if error is None:
                break
            if not self._pause(seconds):
                return False
            done, error = attempt([record], 0)
        if error is not None:
            self._give_up(record, error)
            done = 1
        return done == 1

    def _pause(self, seconds: float) -> bool:
        """Wait before a retry; False once the loop is to end."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and not self._is_stopped():
            time.sleep(min(left, 0.1))
        return not self._is_stopped()

    def _give_up(self, record: Message, error: Exception, more: str = "") -> None:
        place = f"{record.topic()}[{record.partition()}]@{record.offset()}"
        if not self._goes_on_after_errors():
            error.add_note(f"while handling {place}{more}")
            raise error
        if callable(self._on_error):
            self._on_error(record, error)
        if self._dead_letters is not None:
            self._send(record, error, place)
        self.skipped_count += 1
        log.warning("%s was given up: %s: %s", place, type(error).__name__, error)

    def _send(self, record: Message, error: Exception, place: str) -> None:
        if self._producer is None:
            settings = client_config(
                self._bootstrap_servers, self._producer_config, {}, enable_idempotence=True
            )
            self._producer = Producer(settings, logger=client_log)
        failed: list[KafkaError] = []

        def delivered(problem: KafkaError | None, message: Message) -> None:
            if problem is not None:
                failed.append(problem)

        given: Any = message_headers(record)
        cause = f"{type(error).__name__}: {error}"[:_CAUSE_MAX].encode(errors="replace")
        headers = [*given, ("error", cause), ("place", place.encode())]
        try:
            self._producer.produce(
                self._dead_letters or "", record.value(), record.key(), headers=headers, on_delivery=delivered
            )
            left = self._producer.flush(_DEAD_LETTER_SECONDS)
        except (KafkaException, BufferError) as problem:
            raise KitError(
                f"{place} could not be written to {self._dead_letters}: {sentence(problem)}"
            ) from error
        if failed or left:
            why = sentence(failed[0]) if failed else f"no answer within {_DEAD_LETTER_SECONDS:.0f} s"
            raise KitError(f"{place} could not be written to {self._dead_letters}: {why}") from error

    def close(self) -> None:
        """Let go of the producer."""
        self._producer = None


def _pauses(first_seconds: float) -> Iterator[float]:
    return even_pauses(min(first_seconds, _LONGEST_PAUSE_SECONDS), _LONGEST_PAUSE_SECONDS)
