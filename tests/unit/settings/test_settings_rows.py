"""Rows: parsing, checking, and the error sentences."""

import pytest

from moldau.common.settings.broker import BrokerSettings
from moldau.common.settings.group import GroupSettings
from moldau.common.settings.rows import Kind, Scope, SettingError
from moldau.common.settings.topic import TopicSettings


def all_rows():
    return [
        pytest.param(row, id=f"{cls.__name__}-{row.name}")
        for cls in (BrokerSettings, TopicSettings, GroupSettings)
        for row in cls.ROWS.values()
    ]


@pytest.mark.parametrize("row", all_rows())
def test_every_default_passes_its_own_check_and_is_documented(row):
    text = row.text(row.default)
    if text is not None:
        assert row.parse(text) == row.default
    assert row.documentation.endswith(".")
    assert row.name == row.attribute.replace("_", ".")


@pytest.mark.parametrize("cls", [TopicSettings, GroupSettings])
def test_synonyms_are_broker_settings_with_the_same_default(cls):
    for row in cls.ROWS.values():
        for name in row.synonyms:
            assert name in BrokerSettings.ROWS, name
        if len(row.synonyms) == 1:
            assert BrokerSettings.ROWS[row.synonyms[0]].default == row.default, row.name


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("retention.ms", "abc", "Not a number of type LONG"),
        ("retention.ms", "-2", "Value must be at least -1"),
        ("retention.ms", "9223372036854775808", "Not a number of type LONG"),
        ("segment.bytes", "100", "Value must be at least 1048576"),
        ("cleanup.policy", "compact,foo", "String must be one of: compact, delete"),
        ("cleanup.policy", "compact,compact", "The list must not hold a value twice"),
        ("compression.type", "lzo", "String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer"),
        ("preallocate", "yes", "Expected value to be either true or false"),
        ("min.cleanable.dirty.ratio", "1.5", "Value must be no more than 1"),
        ("compression.gzip.level", "0", "Value must be between 1 and 9 or equal to -1"),
        ("leader.replication.throttled.replicas", "1-2", "Value must be the literal '*' or a list of"),
    ],
)
def test_a_bad_value_gets_a_sentence_in_kafkas_manner(name, text, complaint):
    with pytest.raises(SettingError) as caught:
        TopicSettings.ROWS[name].parse(text)
    assert caught.value.name == name
    assert caught.value.sentence.startswith(f"Invalid value {text} for configuration {name}: {complaint}")


def test_a_password_is_not_repeated_in_an_error_or_a_repr():
    row = BrokerSettings.ROWS["ssl.key.password"]
    assert row.kind is Kind.PASSWORD
    assert "secret" not in str(row._error("secret", "no"))
    assert "secret" not in repr(BrokerSettings(ssl_key_password="secret"))


def test_lists_may_be_empty_and_lose_their_blanks():
    row = TopicSettings.ROWS["cleanup.policy"]
    assert row.parse("") == ()
    assert row.parse(" compact , delete ") == ("compact", "delete")


def test_settings_objects_are_frozen_comparable_and_copied_with_changes():
    settings = TopicSettings(retention_ms=5)
    assert settings == TopicSettings(retention_ms=5)
    assert hash(settings) == hash(TopicSettings(retention_ms=5))
    assert settings != TopicSettings()
    assert settings.replace(retention_bytes=7) == TopicSettings(retention_ms=5, retention_bytes=7)
    with pytest.raises(AttributeError):
        settings.retention_ms = 6
    with pytest.raises(TypeError):
        TopicSettings(retention=6)
    assert repr(settings) == "TopicSettings(retention_ms=5)"


def test_a_setting_without_effect_says_so_where_it_is_described():
    row = BrokerSettings.ROWS["num.io.threads"]
    assert not row.effective
    assert "no effect" in row.help
    assert "no effect" not in BrokerSettings.ROWS["num.partitions"].help


def test_scopes_follow_kafkas_dynamic_settings():
    rows = BrokerSettings.ROWS
    assert rows["log.retention.ms"].scope is Scope.CLUSTER_WIDE
    assert rows["log.retention.hours"].scope is Scope.READ_ONLY
    assert rows["num.partitions"].scope is Scope.READ_ONLY
    assert rows["message.max.bytes"].scope is Scope.CLUSTER_WIDE
    assert rows["leader.replication.throttled.rate"].scope is Scope.CLUSTER_WIDE
    assert Scope.PER_BROKER.label == "per-broker"
