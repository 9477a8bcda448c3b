"""What java.util.regex of Java 17 matches; the expected names were printed by it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from moldau.common.core.java_patterns import NotTranslated, compile_java
from moldau.common.core.patterns import PatternError
from moldau.tools.kafka.lines.topic_filter import topic_pattern
from moldau.tools.kafka.problems import ToolError
from moldau.tools.kafka.queries.topic_subscription import TopicSubscription

NAMES = ("orders", "orders-1", "Orders.EU", "audit_2024", "a", "aa")


@pytest.mark.parametrize(
    ("pattern", "matched"),
    [
        (r"orders.*", "orders orders-1"),
        (r"orders-\d+", "orders-1"),
        (r"(?i)ORDERS[-.]\w+", "orders-1 Orders.EU"),
        (r"[a-z&&[^b-z]]+", "a aa"),
        (r"[a-c[n-z]&&a]+", "a aa"),
        (r"[^a-z]rders\.\p{Lu}{2}", "Orders.EU"),
        (r"\p{Alpha}+", "orders a aa"),
        (r"\p{IsAlphabetic}++", "orders a aa"),
        (r"\P{Upper}*", "orders orders-1 audit_2024 a aa"),
        (r"\p{L}+-\p{Nd}", "orders-1"),
        (r"\p{script=Latin}+", "orders a aa"),
        (r"\p{gc=Lu}.*", "Orders.EU"),
        (r"\Qorders-\E.", "orders-1"),
        (r"\QOrders.EU", "Orders.EU"),
        (r"(?<x>a)\k<x>", "aa"),
        (r"(a)\1", "aa"),
        (r"(a)\2", ""),
        (r"(?!orders).*", "Orders.EU audit_2024 a aa"),
        (r"(?<=o)x|a{2}", "aa"),
        (r"(?:audit|orders)(?>_2024)?", "orders audit_2024"),
        (r"\x61\u0061?", "a aa"),
        (r"\x{61}{1,2}", "a aa"),
        (r"\0141+", "a aa"),
        (r"\N{LATIN SMALL LETTER A}", "a"),
        (r"(?x) a  a # two", "aa"),
        (r"a(?i)A|ORDERS", "orders aa"),
        (r"(?i:o)(?-i)RDERS", ""),
        (r"\Aa\z", "a"),
        (r"a|^orders$", "orders a"),
        (r"[]a]+", "a aa"),
        (r"[a\-]+", "a aa"),
        (r"\h*a\R?", "a"),
        (r"{2}a", "a"),
        (r"\p{javaUpperCase}\p{javaLowerCase}+\W\S+", "Orders.EU"),
    ],
)
def test_names_match_as_in_java(pattern: str, matched: str) -> None:
    fullmatch = compile_java(pattern).fullmatch
    assert [each for each in NAMES if fullmatch(each)] == matched.split()


@pytest.mark.parametrize(
    "pattern",
    [
        r"a**",
        r"a{,2}",
        r"a{",
        r"(?<1>a)",
        r"(?P<x>a)",
        r"\y",
        r"[z-a]",
        r"(",
        r"a)",
        r"\p{Foo}",
        r"\k<y>",
        r"[a",
        r"*a",
        r"\E",
        r"(?q)a",
        r"\x4",
    ],
)
def test_what_java_refuses(pattern: str) -> None:
    with pytest.raises(PatternError):
        compile_java(pattern)


@pytest.mark.parametrize("pattern", [r"(?<=a+)b", r"\p{IsGreek}"])
def test_what_is_not_translated_is_said(pattern: str) -> None:
    with pytest.raises(NotTranslated):
        compile_java(pattern)
    with pytest.raises(ToolError, match="cannot be matched here, but in Java"):
        topic_pattern(pattern)


def test_any_text_is_a_pattern_or_refused() -> None:
    draw = random.Random(5)
    signs = [*r"ab|()[]{}^$.*+?-&\\,1<>:=!QEpkxuc0", "(?", "&&", r"\p{", r"\Q", "(?i)", "(?<n>"]
    for _ in range(5000):
        text = "".join(draw.choices(signs, k=draw.randrange(12)))
        with suppress(PatternError):
            assert compile_java(text).groups >= 0
    with pytest.raises(PatternError):
        compile_java("(" * 100_000)


class Listing:
    """A consumer that knows some topics."""

    def __init__(self, *answers: Any) -> None:
        self._answers: Iterator[Any] = iter(answers)
        self.subscribed: list[list[str]] = []

    def list_topics(self, timeout: float) -> Any:
        """The next answer."""
        answer = next(self._answers)
        if isinstance(answer, Exception):
            raise answer
        return SimpleNamespace(topics=dict.fromkeys(answer.split()))

    def subscribe(self, names: list[str]) -> None:
        """Note the names."""
        self.subscribed.append(names)


def test_topics_that_appear_are_subscribed_to_when_it_is_time_to_look() -> None:
    now = [0.0]
    gone = KafkaException(KafkaError(KafkaError._TRANSPORT))
    listing = Listing("other", "t1 other __consumer_offsets", gone, "t1", "t1 t2 t3")
    topics = TopicSubscription(r"(__.*|t\d)", {"metadata.max.age.ms": "1000"}, clock=lambda: now[0])
    for seconds in (0, 0.5, 1, 1.5, 2, 3, 4):
        now[0] = seconds
        topics.follow(listing)
    assert listing.subscribed == [["t1"], ["t1", "t2", "t3"]]


def test_the_first_look_must_succeed_and_internal_topics_are_asked_for() -> None:
    gone = KafkaException(KafkaError(KafkaError._TRANSPORT))
    topics = TopicSubscription(".*", {"exclude.internal.topics": "false"})
    with pytest.raises(KafkaException):
        topics.follow(Listing(gone))
    assert topics.matching(Listing("__consumer_offsets b a")) == ["__consumer_offsets", "a", "b"]
    with pytest.raises(ToolError, match=r"--include \[ is no regular expression"):
        TopicSubscription("[", {})
