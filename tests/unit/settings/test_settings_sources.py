"""Where settings come from: property files, environment, overrides; and what is said about unknown names."""

import pytest

from moldau.common.core.properties import parse_properties
from moldau.common.settings import document, sources
from moldau.common.settings.broker import BrokerSettings
from moldau.common.settings.listeners import Listener, advertised_listeners, listeners
from moldau.common.settings.rows import SettingError
from moldau.common.settings.sources import StaticSettings, from_texts, load


def test_property_syntax():
    content = r"""
# comment
! comment
a=1
  b : 2
c   3
d = one,\
    two
e=x\=y\\z \u00e9
f\ g=h
empty
last=1
last=2
"""
    assert parse_properties(content) == {
        "a": "1",
        "b": "2",
        "c": "3",
        "d": "one,two",
        "e": "x=y\\z é",
        "f g": "h",
        "empty": "",
        "last": "2",
    }
    with pytest.raises(ValueError, match="line 2"):
        parse_properties("a=1\nb=\\u12")
    with pytest.raises(ValueError, match="line 1"):
        parse_properties("a=\\u+123")


def test_property_lines_end_where_java_ends_them():
    assert parse_properties("a=1\u20282\x0b3\r\nb=4\rc=5\x85\n") == {
        "a": "1\u20282\x0b3",
        "b": "4",
        "c": "5\x85",
    }
    assert parse_properties("\\\n# no key\na=1") == {"a": "1"}
    assert parse_properties("\\\n\n  \n#b\na=\\\n\nb=2") == {"a": "", "b": "2"}
    assert parse_properties("a=1\n\\\n\\\n\n") == {"a": "1"}
    with pytest.raises(ValueError, match="line 4"):
        parse_properties("\\\n\na=1\nb=\\u12")
    assert parse_properties("a=\\ud83d\\ude00 \\ud83d") == {"a": "\U0001f600 \ud83d"}


def test_later_sources_win(tmp_path):
    file = tmp_path / "server.properties"
    file.write_text("log.retention.hours=1\nnum.partitions=2\nlog.dirs=/a,/b\n")
    static = load(
        file=file,
        environment={
            "KAFKA_NUM_PARTITIONS": "3",
            "KAFKA_HEAP_OPTS": "-Xmx1g",
            "MOLDAU_DURABILITY": "group",
            "HOME": "/x",
        },
        overrides=["num.partitions = 4"],
    )
    assert static.broker.num_partitions == 4
    assert static.broker.log_retention_hours == 1
    assert static.broker.data_directories == ("/a", "/b")
    assert static.broker.moldau_durability == "group"
    assert static.texts["num.partitions"] == "4"
    assert static.warnings == ()


def test_environment_names():
    assert sources.from_environment({"KAFKA_A_B__C___D": "x"}) == {"a.b_c-d": "x"}


@pytest.mark.parametrize(
    ("name", "warning"),
    [
        (
            "log.retention.hour",
            "unknown setting log.retention.hour is ignored; did you mean log.retention.hours?",
        ),
        ("password.encoder.secret", "password.encoder.secret was removed in Kafka 4 and is ignored"),
        ("zookeeper.ssl.crl.enable", "Moldau does not have yet"),
        ("retention.ms", "the default of all topics is set by log.retention.ms"),
        ("rsm.config.bucket", "Moldau does not have yet"),
        ("xyzzy", "unknown setting xyzzy is ignored"),
    ],
)
def test_a_name_that_is_not_known_is_never_dropped_silently(name, warning):
    (said,) = from_texts({name: "1"}).warnings
    assert warning in said


def test_bad_values_are_setting_errors():
    with pytest.raises(
        SettingError, match=r"Invalid value 0 for configuration num\.partitions: Value must be"
    ):
        load(overrides=["num.partitions=0"])
    with pytest.raises(SettingError, match="not of the form name=value"):
        load(overrides=["num.partitions"])


def test_broker_id_is_the_older_name_of_node_id():
    assert from_texts({"broker.id": "7"}).broker.node_id == 7
    assert from_texts({"broker.id": "7", "node.id": "8"}).broker.node_id == 8
    assert BrokerSettings().node_id == 1


def test_listeners():
    settings = from_texts(
        {
            "listeners": "PLAINTEXT://:9092, INSIDE://[::1]:0, CONTROLLER://:9093",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INSIDE:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "advertised.listeners": "PLAINTEXT://kafka.example:19092",
        }
    ).broker
    assert listeners(settings) == (
        Listener("PLAINTEXT", "PLAINTEXT", "", 9092),
        Listener("INSIDE", "PLAINTEXT", "::1", 0),
    )
    assert advertised_listeners(settings) == (Listener("PLAINTEXT", "PLAINTEXT", "kafka.example", 19092),)
    assert listeners(BrokerSettings()) == (Listener("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 9092),)
    assert advertised_listeners(BrokerSettings()) is None


@pytest.mark.parametrize(
    ("texts", "complaint"),
    [
        ({"listeners": "localhost:9092"}, "expected NAME://host:port"),
        ({"listeners": "PLAINTEXT://x:70000"}, "expected NAME://host:port"),
        ({"listeners": ""}, "names no listener"),
        ({"listeners": "OUTSIDE://x:1"}, "No security protocol defined for listener OUTSIDE"),
        ({"listeners": "PLAINTEXT://x:1,PLAINTEXT://x:2"}, "appears twice"),
        ({"advertised.listeners": "PLAINTEXT://0.0.0.0:9092"}, "must name a host that clients can reach"),
        (
            {
                "advertised.listeners": "OTHER://a:1",
                "listener.security.protocol.map": "OTHER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            },
            "not among the listeners",
        ),
        ({"listener.security.protocol.map": "PLAINTEXT"}, "not NAME:PROTOCOL"),
    ],
)
def test_listeners_that_make_no_sense(texts, complaint):
    settings = from_texts(texts).broker
    with pytest.raises(SettingError, match=complaint):
        (listeners(settings), advertised_listeners(settings))


def test_settings_made_in_code_count_as_set():
    static = StaticSettings.of(BrokerSettings(num_partitions=3, log_dirs=("a", "b")))
    assert static.texts == {"num.partitions": "3", "log.dirs": "a,b"}


def test_the_documentation_is_up_to_date(pytestconfig):
    page = pytestconfig.rootpath / "docs" / "settings.md"
    remedy = "run: python -m moldau.common.settings.document > docs/settings.md"
    assert page.read_text() == document.document(), remedy
