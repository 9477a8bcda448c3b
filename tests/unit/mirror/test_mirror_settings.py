"""A link's settings: what is refused, what is secret, which topics match; and which rights follow."""

from __future__ import annotations

import asyncio

import pytest

from moldau.broker.mirror.acls import acls_here, source_acls
from moldau.broker.mirror.link_settings import is_secret, mirror_settings
from moldau.broker.mirror.pulled import first_epoch, same_batch
from moldau.broker.mirror.source import SourceTopic
from moldau.broker.mirror.topics import Found, source_configs, wanted_topics
from moldau.broker.peers.peers import Unsupported
from moldau.common.core.slow_lane import SlowLane
from moldau.common.protocol.acls import Acl
from moldau.common.protocol.operations import Operation, PatternType, Permission, ResourceType
from moldau.common.records.builder import build_simple_batch
from moldau.common.settings.mirror import MirrorSettings
from moldau.common.settings.rows import SettingError


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "bootstrap.servers is missing"),
        ({"bootstrap.servers": "berlin"}, "'berlin' is not host:port"),
        ({"bootstrap.servers": "berlin:0"}, "not host:port"),
        ({"bootstrap.servers": "a:1", "tpoics": "x"}, "tpoics is no setting of a link"),
        ({"bootstrap.servers": "a:1", "topics": "((", "groups": "x"}, "topics: the pattern '(('"),
        ({"bootstrap.servers": "a:1", "security.protocol": "SSH"}, "security.protocol is SSH"),
        ({"bootstrap.servers": "a:1", "refresh.topics.interval.seconds": "0"}, "at least 1"),
    ],
)
def test_what_is_refused(settings: dict[str, str], said: str) -> None:
    with pytest.raises(SettingError) as problem:
        mirror_settings(settings)
    assert said in problem.value.sentence


def test_what_is_secret() -> None:
    secret = ["sasl.jaas.config", "ssl.keystore.password", "ssl.keystore.key", "ssl.key.pem", "sasl.password"]
    assert [name for name in secret if not is_secret(name)] == []
    shown = ["bootstrap.servers", "ssl.keystore.location", "ssl.keystore.type", "topics", "sasl.mechanism"]
    assert [name for name in shown if is_secret(name)] == []


def matching(there: dict[str, SourceTopic], settings: MirrorSettings) -> list[Found]:
    return asyncio.run(SlowLane().slices().run(wanted_topics(there, settings)))


def test_which_topics_match() -> None:
    names = ["orders", "orders-2", "other", "orders.replica", "__consumer_offsets", "__own", "mine.internal"]
    there = {name: SourceTopic(name, bytes(16), {}) for name in names}
    there["hidden"] = SourceTopic("hidden", bytes(16), {}, error_code=29)
    settings = mirror_settings({"bootstrap.servers": "a:1", "topics": "orders.*,__own", "topic.prefix": "b."})
    assert [each.name for each in matching(there, settings)] == ["b.__own", "b.orders", "b.orders-2"]
    settings = mirror_settings({"bootstrap.servers": "a:1", "topics": ".*"})
    assert [each.name for each in matching(there, settings)] == ["orders", "orders-2", "other"]


def test_never_write_and_all_becomes_read() -> None:
    def acl(operation: Operation, name: str = "orders", pattern: PatternType = PatternType.LITERAL) -> Acl:
        return Acl(ResourceType.TOPIC, name, pattern, "User:a", "*", operation, Permission.ALLOW)

    there = [
        acl(Operation.ALL),
        acl(Operation.WRITE),
        acl(Operation.DELETE),
        acl(Operation.READ),
        acl(Operation.DESCRIBE),
        acl(Operation.READ, "other"),
        acl(Operation.READ, "orders", PatternType.PREFIXED),
    ]
    found = acls_here(there, {"orders": "b.orders"})
    assert found == [acl(Operation.READ, "b.orders"), acl(Operation.DESCRIBE, "b.orders")]


class OldSource:
    """A broker that has an API in no version that is asked for."""

    async def ask_any(self, request: object) -> object:
        raise Unsupported("it supports it in versions 0 to 0")


def test_an_old_source_tells_neither_settings_nor_rights_and_that_is_no_error() -> None:
    settings, old = mirror_settings({"bootstrap.servers": "a:1"}), OldSource()
    assert asyncio.run(source_configs(old, ["orders"], settings)) == {}  # type: ignore[arg-type]
    assert asyncio.run(source_acls(old)) == []  # type: ignore[arg-type]


def test_batches_are_the_same_but_for_the_leader_epoch() -> None:
    batch = bytearray(build_simple_batch([(None, b"value")], 1000))
    other = bytearray(batch)
    other[12:16] = (7).to_bytes(4, "big")
    assert same_batch(bytes(batch), bytes(other) + b"more")
    assert first_epoch(memoryview(other)) == 7
    assert first_epoch(memoryview(other)[:40]) == -1
    other[-1] ^= 1
    assert not same_batch(bytes(batch), bytes(other))
    assert not same_batch(bytes(batch), bytes(batch[:-1]))


def test_a_source_with_very_many_topics_is_looked_through_in_steps() -> None:
    """Each look took 75 ms of the event loop with 10,000 topics."""
    there = {str(number): SourceTopic(str(number), bytes(16), {}) for number in range(100)}
    settings = mirror_settings({"bootstrap.servers": "a:1", "topics": ".*"})
    assert sum(1 for _ in wanted_topics(there, settings)) == 100


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sasl.oauthbearer.token.endpoint.url", "file:///etc/moldau/tls.key"),
        ("sasl.oauthbearer.token.endpoint.url", " FILE:///etc/moldau/tls.key"),
        ("sasl.oauthbearer.assertion.file", "/etc/moldau/tls.key"),
        ("sasl.oauthbearer.assertion.template.file", "/etc/moldau/users.json"),
    ],
)
def test_no_file_of_the_brokers_is_sent_to_a_source(name: str, value: str) -> None:
    """Whoever may make links chooses the source; it would get the file as a token."""
    login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER", name: value}
    with pytest.raises(SettingError, match="no file of the broker's"):
        mirror_settings({"bootstrap.servers": "a:1", **login})
    own = {**login, "sasl.oauthbearer.token.endpoint.url": "https://login.example/token"}
    own = {key: each for key, each in own.items() if not key.endswith(".file")}
    assert mirror_settings({"bootstrap.servers": "a:1", **own}).bootstrap_servers == ("a:1",)
