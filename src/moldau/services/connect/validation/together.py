"""What is wrong between settings that are right one by one (Kafka's SinkConnectorConfig,
SourceConnectorConfig)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from moldau.common.core.patterns import PatternError, compile_pattern
from moldau.connect.sink import Sink
from moldau.connect.source import Source

_LETTERS = "errors.deadletterqueue.topic.name"


def contradictions(config: Mapping[str, str], kind: type[Source] | type[Sink]) -> Iterator[tuple[str, str]]:
    """The setting to blame, and the sentence. Transforms and predicates: connect/transforms/building.py."""
    if issubclass(kind, Sink):
        yield from _sink(config)
    else:
        yield from _source(config, kind)


def _listed(config: Mapping[str, str], name: str) -> list[str]:
    return [part.strip() for part in config.get(name, "").split(",") if part.strip()]


def _sink(config: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    topics, pattern = _listed(config, "topics"), config.get("topics.regex", "").strip()
    if topics and pattern:
        sentence = "topics and topics.regex are mutually exclusive options, but both are set."
        yield "topics", sentence
        yield "topics.regex", sentence
    elif not topics and not pattern:
        sentence = "Must configure one of topics or topics.regex"
        yield "topics", sentence
        yield "topics.regex", sentence
    letters = config.get(_LETTERS, "").strip()
    if letters and letters in topics:
        yield (
            _LETTERS,
            f"The DLQ topic '{letters}' may not be included in the list of topics "
            f"('topics={','.join(topics)}') consumed by the connector",
        )
    if pattern:
        try:
            matches = compile_pattern(pattern)
        except PatternError as problem:
            yield "topics.regex", f"Invalid value {pattern} for configuration topics.regex: {problem}"
            return
        if letters and matches.fullmatch(letters):
            yield (
                _LETTERS,
                f"The DLQ topic '{letters}' may not be included in the regex matching the topics "
                f"('topics.regex={pattern}') consumed by the connector",
            )


def _source(config: Mapping[str, str], kind: type[Source] | type[Sink]) -> Iterator[tuple[str, str]]:
    assert issubclass(kind, Source)
    if config.get("exactly.once.support", "").lower() == "required" and not kind.exactly_once:
        yield (
            "exactly.once.support",
            f"The connector does not support exactly-once semantics: {kind.__name__} delivers at least once",
        )
    boundary = config.get("transaction.boundary", "").lower()
    if boundary == "connector" and not kind.ends_transactions:
        yield (
            "transaction.boundary",
            "The connector does not support connector-defined transaction boundaries",
        )
    if boundary == "interval":
        interval = config.get("transaction.boundary.interval.ms")
        if interval is not None and interval.strip() == "0":
            yield (
                "transaction.boundary.interval.ms",
                "an interval of 0 ms has no end: leave it out, or set more",
            )
