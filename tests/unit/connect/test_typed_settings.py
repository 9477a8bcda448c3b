"""Settings as values, and names as classes."""

import pytest

from moldau.connect import ConnectError, Setting, SettingType
from moldau.connect.finding import find
from moldau.connect.plugins import Kind
from moldau.connect.typed_settings import required_typed, typed

ROWS = (
    Setting("url", SettingType.STRING, "Where."),
    Setting("count", SettingType.INT, "How many.", 5, check=lambda n: None if n > 0 else "must be positive"),
    Setting("names", SettingType.LIST, "Which.", []),
    Setting("fast", SettingType.BOOLEAN, "Whether.", False),
    Setting("mode", SettingType.STRING, "How.", "bulk", choices=("bulk", "incrementing")),
    Setting("secret", SettingType.PASSWORD, "What.", None, check=lambda _: "is too short"),
)


def test_texts_become_values_of_their_types():
    values, problems = typed(
        ROWS, {"url": " x ", "count": "7", "names": "a, b", "fast": "TRUE", "mode": "BULK", "other": "1"}
    )
    assert not problems
    assert values == {
        "url": "x",
        "count": 7,
        "names": ["a", "b"],
        "fast": True,
        "mode": "bulk",
        "secret": None,
        "other": "1",
    }


def test_what_is_wrong_is_said_by_name_and_secrets_are_not_shown():
    _, problems = typed(ROWS, {"count": "0", "fast": "yes", "mode": "odd", "secret": "pass"})
    assert problems == {
        "url": ['Missing required configuration "url" which has no default value.'],
        "count": ["Invalid value 0 for configuration count: must be positive"],
        "fast": ["Invalid value yes for configuration fast: Expected value to be either true or false"],
        "mode": ["Invalid value odd for configuration mode: String must be one of: bulk, incrementing"],
        "secret": ["Invalid value [hidden] for configuration secret: is too short"],
    }
    with pytest.raises(ConnectError, match="demo: Missing required"):
        required_typed(ROWS, {}, "demo")


def test_integers_have_the_range_of_their_type():
    row = (Setting("n", SettingType.SHORT, ""),)
    assert typed(row, {"n": "32767"})[0]["n"] == 32767
    assert typed(row, {"n": "32768"})[1]
    assert typed(row, {"n": "1.5"})[1]


@pytest.mark.parametrize(
    "name", ["HttpSink", "HttpSinkConnector", "io.confluent.connect.http.HttpSinkConnector"]
)
def test_names_of_others_select_ours(name):
    assert find([Kind.SINK], name).__name__ == "HttpSink"


def test_a_class_of_ones_own_and_names_that_lead_nowhere():
    assert find([Kind.SINK], "moldau.connect.sink:Sink").__name__ == "Sink"
    for name, reason in (
        ("Nowhere", "is not known as a sink"),
        ("no_such_module:X", "cannot be loaded: No module named"),
        ("moldau.connect.sink:Nothing", "has no Nothing"),
        ("HttpSource", "is not known as a sink"),
    ):
        with pytest.raises(ConnectError, match=reason):
            find([Kind.SINK], name)
