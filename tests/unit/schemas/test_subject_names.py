"""Subjects by strategy, however the strategy is spelt."""

import pytest

from moldau.schemas.subjects import Strategy, SubjectError, strategy_of, subject_name


@pytest.mark.parametrize(
    ("spelling", "strategy"),
    [
        ("topic", Strategy.TOPIC),
        ("TOPIC_NAME", Strategy.TOPIC),
        ("io.confluent.kafka.serializers.subject.RecordNameStrategy", Strategy.RECORD),
        ("RECORD_NAME", Strategy.RECORD),
        ("topic-record", Strategy.TOPIC_RECORD),
        ("io.confluent.kafka.serializers.subject.TopicRecordNameStrategy", Strategy.TOPIC_RECORD),
    ],
)
def test_spellings(spelling, strategy):
    assert strategy_of(spelling) is strategy


def test_names():
    assert subject_name("topic", "orders", True, None) == "orders-key"
    assert subject_name("topic", "orders", False, "shop.Order") == "orders-value"
    assert subject_name("record", "orders", False, "shop.Order") == "shop.Order"
    assert subject_name("topic-record", "orders", False, "shop.Order") == "orders-shop.Order"


def test_what_cannot_be_named():
    with pytest.raises(SubjectError, match="needs a schema with a name"):
        subject_name("record", "orders", False, None)
    with pytest.raises(SubjectError, match="'both' is no subject name strategy"):
        subject_name("both", "orders", False, None)
