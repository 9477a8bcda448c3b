"""Topics chosen by --topic: a Java regular expression, with commas for alternatives (Kafka's IncludeList)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from moldau.common.core.java_patterns import NotTranslated, compile_java
from moldau.common.core.patterns import PatternError
from moldau.tools.kafka.problems import ToolError


def topic_pattern(text: str) -> Callable[[str], bool]:
    """Return a test of whether a topic's whole name matches. ToolError for a pattern that is none."""
    cleaned = text.strip().replace(",", "|").replace(" ", "")
    cleaned = re.sub(r"^[\"']+|[\"']+$", "", cleaned)
    try:
        compiled = compile_java(cleaned)
    except NotTranslated as problem:
        raise ToolError(f"{cleaned} cannot be matched here, but in Java: {problem}.") from None
    except PatternError:
        raise ToolError(f"{cleaned} is an invalid regex.") from None
    return lambda name: compiled.fullmatch(name) is not None


def choose(names: Iterable[str], text: str | None) -> list[str]:
    """Return the sorted names that match; all of them without a pattern."""
    matches = topic_pattern(text) if text is not None else lambda name: True
    return sorted(name for name in names if matches(name))
