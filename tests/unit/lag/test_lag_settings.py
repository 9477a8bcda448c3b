"""burrow.toml, as Burrow's users have it."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.common.settings.rows import SettingError
from moldau.services.lag.reading.commits import committed
from moldau.services.lag.routes.configuration import ConfigRoutes
from moldau.services.lag.settings import configuration_of, configuration_of_file

FILE = """
[zookeeper]
servers = [ "zk:2181" ]
[client-profile.prod]
client-id = "burrow"
tls = "ours"
sasl = "login"
[tls.ours]
cafile = "/etc/ca.pem"
[sasl.login]
mechanism = "SCRAM-SHA-512"
username = "watcher"
password = "s3cret"
[httpserver.default]
address = "127.0.0.1:8000"
[storage.default]
class-name = "inmemory"
intervals = 15
min-distance = 1
group-denylist = "^console-consumer-"
[cluster.east]
class-name = "kafka"
servers = [ "k1:9092", "k2:9092" ]
client-profile = "prod"
topic-refresh = 120
[consumer.east]
cluster = "east"
group-denylist = "temporary"
start-latest = true
[notifier.pager]
class-name = "http"
url-open = "https://hooks.example/T0K3N"
[surprise]
x = 1
"""


def test_a_file_of_burrows_works(tmp_path: Path) -> None:
    path = tmp_path / "burrow.toml"
    path.write_text(FILE)
    found = configuration_of_file(path)
    (east,) = found.clusters
    assert (east.servers, east.intervals.topics, east.start_latest) == ("k1:9092,k2:9092", 120, True)
    assert (east.limits.intervals, east.limits.distance_ms) == (15, 1000)
    assert [east.accepts(each) for each in ("billing", "console-consumer-1", "a-temporary-one")] == [
        True,
        False,
        False,
    ]
    assert dict(east.client) == {
        "client.id": "burrow",
        "security.protocol": "SASL_SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": "/etc/ca.pem",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "watcher",
        "sasl.password": "s3cret",
    }
    assert found.http.listeners == ("http://127.0.0.1:8000",)
    assert any("zookeeper" in each for each in found.warnings)
    assert any("surprise" in each for each in found.warnings)
    assert "s3cret" not in repr(found)


def test_the_settings_are_shown_without_secrets(tmp_path: Path) -> None:
    path = tmp_path / "burrow.toml"
    path.write_text(FILE)
    shown = ConfigRoutes(configuration_of_file(path).document)
    assert shown.entry("notifier", "pager") == {"class-name": "http"}
    assert shown.entry("sasl", "login") is None
    assert shown.names("cluster") == ["east"]


def test_webhooks_and_headers_are_secrets() -> None:
    notifier = {
        "class-name": "slack",
        "webhook": "https://hooks.example/T/B/s3cret",
        "headers": {"Cookie": "s3cret", "X-Who": "s3cret"},
        "extras": {"list": [{"passphrase": "s3cret", "team": "a"}]},
    }
    shown = ConfigRoutes({"notifier": {"chat": notifier}}).entry("notifier", "chat")
    assert shown == {"class-name": "slack", "extras": {"list": [{"team": "a"}]}}


@pytest.mark.parametrize(
    ("document", "why"),
    [
        ({}, "no cluster is named"),
        ({"cluster": {"a": {}}}, "names no servers"),
        ({"cluster": {"a": {"servers": ["x:1"], "client-profile": "b"}}}, r"no section \[client-profile.b\]"),
        ({"cluster": {"a": {"servers": ["x:1"]}}, "storage": {"d": {"intervals": 0}}}, "intervals = 0"),
        ({"cluster": {"a": {"servers": ["x:1"]}}, "storage": {"d": {"group-allowlist": "("}}}, "allowlist"),
        ({"cluster": {"a": {"servers": ["x:1"]}}, "notifier": {"n": {"class-name": "pigeon"}}}, "pigeon"),
        ({"cluster": "east"}, "cluster is no table"),
    ],
)
def test_what_is_wrong_is_named(document: dict[str, object], why: str) -> None:
    with pytest.raises(SettingError, match=why):
        configuration_of(document)


@pytest.mark.parametrize("length", range(24))
def test_torn_records_of_the_offsets_topic_are_passed_over(length: int) -> None:
    key = b"\0\1\0\3abc\0\6orders\0\0\0\7"
    value = b"\0\3" + bytes(8) + b"\xff\xff\xff\xff" + b"\0\0" + bytes(8)
    assert committed(key, value) == ("abc", "orders", 7, 0, 0)
    assert committed(key, None) == ("abc", "orders", 7, None, 0)
    if length < len(key):
        assert committed(key[:length], value) is None
    assert committed(key, value[: min(length, len(value) - 1)]) is None
    assert committed(b"\0\2\0\3abc", value) is None
