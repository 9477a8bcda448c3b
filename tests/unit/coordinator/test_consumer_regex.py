"""Patterns: whole names, linear time, with RE2 and without it."""

import sys
from collections.abc import Iterator

import pytest

from moldau.broker.coordinator.group.consumer import regex
from moldau.broker.coordinator.group.consumer.regex import InvalidPattern, TopicMatcher, compile_pattern
from moldau.common.core import patterns


def forget_patterns() -> None:
    compile_pattern.cache_clear()
    patterns.compile_pattern.cache_clear()


@pytest.fixture(params=["re2", "fallback"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Both engines; the fallback is what a machine without the re2 wheel gets."""
    if request.param == "re2":
        pytest.importorskip("re2")
    else:
        monkeypatch.setitem(sys.modules, "re2", None)
    forget_patterns()
    yield str(request.param)
    forget_patterns()


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize(
    ("pattern", "matched", "missed"),
    [
        ("orders", "orders", "orders-eu"),
        ("^orders.*", "orders-eu", "my-orders"),
        ("(eu|us)-[a-z]+", "us-east", "us-1"),
        ("a{2,3}", "aaa", "aaaa"),
        (".*", "__consumer_offsets", ""),
        (r"v\d\.x", "v1.x", "v1-x"),
    ],
)
def test_a_pattern_matches_whole_names(pattern: str, matched: str, missed: str) -> None:
    matches = compile_pattern(pattern)
    assert matches(matched)
    assert not matches(missed) or missed == ""


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("pattern", ["(a", "(?=a)b", r"(a)\1", "a{2000}", "a" * 1001, "*", "(?<!x)a"])
def test_what_is_not_regular_or_too_large_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidPattern):
        compile_pattern(pattern)


def test_re2_is_not_impressed_by_catastrophic_patterns() -> None:
    pytest.importorskip("re2")
    forget_patterns()
    for pattern in ("(a*)*b", "(a|aa)+b", "(.*.*)*b"):
        assert not compile_pattern(pattern)("a" * 249)


@pytest.mark.parametrize("pattern", ["(a*)*b", "(a|aa)+b", "(.*.*)*b", ".*.*.*.*b"])
def test_the_fallback_refuses_what_it_cannot_do_safely(pattern: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)
    forget_patterns()
    with pytest.raises(InvalidPattern, match="google-re2"):
        compile_pattern(pattern)
    forget_patterns()


def test_each_topic_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def compile_and_count(pattern: str) -> regex.Matches:
        def matches(name: str) -> bool:
            asked.append(name)
            return name.startswith(pattern)

        return matches

    monkeypatch.setattr(regex, "compile_pattern", compile_and_count)
    matcher = TopicMatcher()
    assert matcher.resolve("a", {"a1": 0, "b": 0}) == {"a1"}
    assert matcher.resolve("a", {"a1": 0, "a2": 0, "b": 0}) == {"a1", "a2"}
    assert matcher.resolve("a", {"a2": 0, "b": 0}) == {"a2"}
    assert sorted(asked) == ["a1", "a2", "b"]


def test_a_pattern_of_an_old_log_that_does_not_compile_matches_nothing() -> None:
    assert TopicMatcher().resolve("(a", {"a": 0}) == frozenset()
