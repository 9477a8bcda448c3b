"""Under which subject a record's schema is registered: the three strategies of Confluent's serializers.

topic           orders-value                     one schema for a topic (the default)
record          shop.Order                       one schema for a record, in whatever topics
topic-record    orders-shop.Order                several records in one topic, each with its own history
"""

from enum import StrEnum


class Strategy(StrEnum):
    """How a subject is named, as our options spell it."""

    TOPIC = "topic"
    RECORD = "record"
    TOPIC_RECORD = "topic-record"


_SPELLINGS = {
    "topic": Strategy.TOPIC,
    "topicname": Strategy.TOPIC,
    "topicnamestrategy": Strategy.TOPIC,
    "record": Strategy.RECORD,
    "recordname": Strategy.RECORD,
    "recordnamestrategy": Strategy.RECORD,
    "topicrecord": Strategy.TOPIC_RECORD,
    "topicrecordname": Strategy.TOPIC_RECORD,
    "topicrecordnamestrategy": Strategy.TOPIC_RECORD,
}


class SubjectError(ValueError):
    """No subject can be named; the message says why."""


def strategy_of(text: str) -> Strategy:
    """Return the strategy that is meant by ours, REST's (TOPIC_NAME) or Java's name of it. SubjectError."""
    plain = text.rpartition(".")[2].replace("-", "").replace("_", "").lower()
    if plain not in _SPELLINGS:
        raise SubjectError(f"{text!r} is no subject name strategy: there are {', '.join(Strategy)}")
    return _SPELLINGS[plain]


def subject_name(strategy: str, topic: str, is_key: bool, record_name: str | None) -> str:
    """Return the subject of a key's or value's schema.

    `record_name` is `ParsedSchema.name`; SubjectError where the strategy needs one and there is none.
    """
    wanted = strategy_of(strategy)
    if wanted is Strategy.TOPIC:
        return f"{topic}-{'key' if is_key else 'value'}"
    if not record_name:
        raise SubjectError(
            f"the {wanted} strategy needs a schema with a name (a record, a message, or a title in JSON "
            "Schema), and this schema has none"
        )
    return record_name if wanted is Strategy.RECORD else f"{topic}-{record_name}"
