r"""Which topics --include means: those that exist and match.

librdkafka's own patterns are POSIX's, which have no \d and no (?:...), so that the names are matched here, as
Java's consumer does: all topics' names are asked for now and then (metadata.max.age.ms), and those that match
are subscribed to. Internal topics are left out, unless exclude.internal.topics is false.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from moldau.common.core.java_patterns import compile_java
from moldau.common.core.patterns import PatternError
from moldau.tools.kafka.problems import ToolError

LOOKS_EVERY_MS = 300_000
"""metadata.max.age.ms of Java's consumer."""
_ANSWER_SECONDS = 10.0
_INTERNAL = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})


class TopicSubscription:
    """The topics that a pattern matches, as they come and go."""

    def __init__(
        self, pattern: str, java: Mapping[str, str], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`java`: the client's settings. ToolError for a pattern that is none, or is not understood here."""
        try:
            self._matches = compile_java(pattern).fullmatch
        except PatternError as problem:
            raise ToolError(f"--include {pattern} is no regular expression: {problem}") from None
        with_internal = java.get("exclude.internal.topics", "true").strip().lower() == "false"
        self._hidden = frozenset() if with_internal else _INTERNAL
        age_ms = java.get("metadata.max.age.ms", "")
        self._looks_every_seconds = (int(age_ms) if age_ms.isdecimal() else LOOKS_EVERY_MS) / 1000
        self._clock = clock
        self._names: list[str] = []
        self._due = float("-inf")

    def follow(self, consumer: Any) -> None:
        """Subscribe to what matches by now, if it is time to look. KafkaException if the first look fails."""
        from confluent_kafka import KafkaException

        now = self._clock()
        if now < self._due:
            return
        self._due = now + self._looks_every_seconds
        try:
            names = self.matching(consumer)
        except KafkaException:
            if not self._names:
                raise
            return
        if names and names != self._names:
            consumer.subscribe(names)
            self._names = names

    def matching(self, consumer: Any) -> list[str]:
        """Return the names that match. KafkaException if no broker answers."""
        names = consumer.list_topics(timeout=_ANSWER_SECONDS).topics
        return sorted(name for name in names if name not in self._hidden and self._matches(name))
