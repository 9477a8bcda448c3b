"""The file of settings without effect: in order, whole, and checked as any other setting is."""

from pathlib import Path

import pytest

from moldau.common.settings import without_effect
from moldau.common.settings.broker import BrokerSettings
from moldau.common.settings.group import GroupSettings
from moldau.common.settings.rows import Scope, SettingError
from moldau.common.settings.topic import TopicSettings

TABLES = {"broker": BrokerSettings, "topic": TopicSettings, "group": GroupSettings}
LINES = Path(without_effect.__file__).with_name("without_effect.tsv").read_text().splitlines()


def test_the_file_is_sorted_and_holds_each_setting_once():
    entries = [tuple(line.split("\t")[:2]) for line in LINES[1:]]
    order = list(TABLES)
    assert entries == sorted(set(entries), key=lambda entry: (order.index(entry[0]), entry[1]))
    assert len(entries) > 120


@pytest.mark.parametrize("line", LINES[1:], ids=lambda line: line.split("\t")[1])
def test_a_line_says_what_the_table_has(line):
    of, name, kind, default, valid, scope, synonyms, documentation = line.split("\t")
    row = TABLES[of].ROWS[name]
    assert not row.effective
    assert (row.kind.name.lower(), row.valid, row.documentation) == (kind, valid, documentation)
    assert row.synonyms == tuple(filter(None, synonyms.split(",")))
    assert row.scope.label == (scope or Scope.READ_ONLY.label)
    assert row.default == TABLES[of]().get(name)
    assert (row.default is None) == (default == "unset")
    assert default == "unset" or row.text(row.default) == default
    assert (row.check is None) == (not valid)


@pytest.mark.parametrize(
    ("settings", "name", "good", "bad", "complaint"),
    [
        ("broker", "num.io.threads", "1", "0", "Value must be at least 1"),
        ("broker", "metrics.recording.level", "DEBUG", "debug", "String must be one of: INFO, DEBUG, TRACE"),
        ("topic", "local.retention.ms", "-2", "-3", "Value must be at least -2"),
        ("broker", "broker.session.timeout.ms", "5", "five", "Not a number of type INT"),
    ],
)
def test_a_value_is_checked_although_nothing_reads_it(settings, name, good, bad, complaint):
    row = TABLES[settings].ROWS[name]
    assert row.text(row.parse(good)) == good
    with pytest.raises(SettingError) as caught:
        row.parse(bad)
    assert complaint in caught.value.sentence


def test_such_a_setting_is_an_attribute_like_any_other():
    assert BrokerSettings(num_io_threads=3).get("num.io.threads") == 3
    assert BrokerSettings(num_io_threads=3) != BrokerSettings()
