"""The registry's client: what it asks, keeps and says, against a registry that only keeps schemas."""

from __future__ import annotations

import base64
from collections.abc import Iterator

import pytest
from fake_registry import FakeRegistry, guid_of

from moldau.schemas.registry_client import UNKNOWN_KEPT_SECONDS, RegistryClient, RegistryError, UnusableSchema
from moldau.schemas.registry_settings import RegistrySettingError, client_settings
from moldau.schemas.schema import Reference, SchemaText, SchemaType
from moldau.streams.failures import Cure, cure_of

NAME = '{"type":"record","name":"Name","namespace":"shop","fields":[{"name":"text","type":"string"}]}'
ORDER = '{"type":"record","name":"Order","namespace":"shop","fields":[{"name":"by","type":"shop.Name"}]}'
USES_NAME = {"name": "shop.Name", "subject": "name", "version": 1}


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    made = FakeRegistry()
    yield made
    made.close()


def client_of(registry: FakeRegistry, clock: Clock | None = None, **more: str) -> RegistryClient:
    conf = {"schema.registry.url": registry.url, "max.retries": "0", **more}
    return RegistryClient(conf, clock or Clock())


def test_a_schema_is_asked_for_once(registry: FakeRegistry) -> None:
    number = registry.add("orders-value", NAME)
    client = client_of(registry)
    first = client.by_id(number)
    assert first.name == "shop.Name"
    assert client.by_id(number) is first
    assert client.by_guid(guid_of(number)).canonical == first.canonical
    assert client.by_id_or_guid(number) is first
    assert len(registry.requests) == 1


def test_references_come_with_a_schema(registry: FakeRegistry) -> None:
    registry.add("name", NAME)
    number = registry.add("orders-value", ORDER, references=[USES_NAME])
    parsed = client_of(registry).by_id(number)
    assert parsed.references == (Reference("shop.Name", "name", 1),)
    assert list(parsed.dependencies) == ["shop.Name"]


def test_references_that_lead_in_a_circle_end(registry: FakeRegistry) -> None:
    text = 'syntax = "proto3"; import "b"; message A { int32 a = 1; }'
    circle = [{"name": "b", "subject": "b", "version": 1}]
    registry.add("b", text, "PROTOBUF", circle)
    parsed = client_of(registry).latest("b").parsed
    assert list(parsed.dependencies) == ["b"]


def test_an_unknown_id_is_not_asked_for_at_each_record(registry: FakeRegistry) -> None:
    clock = Clock()
    client = client_of(registry, clock)
    for _ in range(3):
        with pytest.raises(RegistryError, match="Schema not found") as told:
            client.by_id(7)
        assert told.value.is_not_found
        assert told.value.error_code == 40403
    assert len(registry.requests) == 1
    clock.now = UNKNOWN_KEPT_SECONDS
    for each in range(7):
        registry.add(f"s{each}", NAME.replace("Name", f"Name{each}"))
    assert client.by_id(7).name == "shop.Name6"


def test_a_schema_that_cannot_be_understood_is_told_from_a_registry_that_is_away(
    registry: FakeRegistry,
) -> None:
    number = registry.add("odd", '{"type": "sideways"}')
    other = registry.add("other", "a", schema_type="THRIFT")
    client = client_of(registry)
    for each in (number, number, other):
        with pytest.raises(UnusableSchema):
            client.by_id(each)
    assert len(registry.requests) == 2
    registry.refusal = (503, {"error_code": 50003, "message": "no primary"})
    with pytest.raises(RegistryError, match="cannot answer") as told:
        client.by_id(9)
    assert cure_of(str(told.value)) is Cure.WAIT
    away = client_of(registry)
    registry.close()
    with pytest.raises(RegistryError, match="cannot be reached") as told:
        away.by_id(9)
    assert cure_of(str(told.value)) is Cure.WAIT
    assert not isinstance(told.value, UnusableSchema)


def test_the_latest_version_is_looked_up_again_after_a_while(registry: FakeRegistry) -> None:
    clock = Clock()
    client = client_of(registry, clock, **{"latest.cache.ttl.sec": "5"})
    registry.add("s", NAME)
    assert client.latest("s").version == 1
    registry.add("s", NAME.replace("text", "words"))
    assert client.latest("s").version == 1
    clock.now = 5
    found = client.latest("s")
    assert (found.version, found.id, found.subject, found.guid) == (2, 2, "s", guid_of(2))
    assert client.version("s", 1).id == 1


def test_registering_tells_id_and_version(registry: FakeRegistry) -> None:
    # This registry answers with the id alone, as those before 7.4 do: the version is looked up.
    registry.add("other", NAME.replace("text", "words"))
    client = client_of(registry)
    source = SchemaText(SchemaType.AVRO, NAME)
    found = client.register("s", source)
    assert (found.id, found.version, found.parsed.name) == (2, 1, "shop.Name")
    asked = len(registry.requests)
    assert client.register("s", source) == found == client.lookup("s", source)
    assert len(registry.requests) == asked
    with pytest.raises(RegistryError, match="Schema not found"):
        client.lookup("s", SchemaText(SchemaType.AVRO, '"int"'))


def test_logins_go_with_each_request(registry: FakeRegistry) -> None:
    registry.add("s", NAME)
    client_of(registry, **{"basic.auth.user.info": "me:se:cret"}).by_id(1)
    assert base64.b64decode(registry.headers[-1]["Authorization"].split()[1]) == b"me:se:cret"
    client_of(registry, **{"schema.registry.bearer.auth.token": "abc"}).by_id(1)
    assert registry.headers[-1]["Authorization"] == "Bearer abc"


def test_a_refusal_is_one_sentence(registry: FakeRegistry) -> None:
    registry.refusal = 401, {"error_code": 40101, "message": "who are you?"}
    with pytest.raises(RegistryError, match=r"refused: it wants a login .*who are you") as told:
        client_of(registry).by_id(1)
    assert not told.value.is_not_found
    registry.refusal = 200, {"schema": "{", "schemaType": "AVRO"}
    with pytest.raises(RegistryError, match="schema 2 cannot be understood"):
        client_of(registry).by_id(2)
    registry.refusal = 200, {"schema": "x", "schemaType": "THRIFT"}
    with pytest.raises(RegistryError, match="THRIFT, which is not known"):
        client_of(registry).by_id(3)


def test_a_login_in_an_address_is_not_shown(registry: FakeRegistry) -> None:
    url = registry.url.replace("http://", "http://ann:se%40cret@")
    client = RegistryClient({"schema.registry.url": url, "max.retries": "0"})
    with pytest.raises(RegistryError, match="Schema not found") as told:
        client.by_id(5)
    assert "cret" not in str(told.value)
    assert base64.b64decode(registry.headers[-1]["Authorization"].split()[1]) == b"ann:se@cret"


def test_references_that_lead_far_are_refused(registry: FakeRegistry) -> None:
    text = 'syntax = "proto3"; message A { int32 a = 1; }'
    for number in range(600):
        after = {"name": f"n{number + 1}", "subject": f"n{number + 1}", "version": 1}
        registry.add(f"n{number}", f"{text} // {number}", "PROTOBUF", [after])
    with pytest.raises(RegistryError):
        client_of(registry).latest("n0")


def test_a_registry_that_is_gone_is_told(registry: FakeRegistry) -> None:
    gone = FakeRegistry()
    gone.close()
    with pytest.raises(RegistryError, match="cannot be reached") as told:
        client_of(gone).by_id(1)
    assert told.value.error_code == 0
    registry.add("s", NAME)
    conf = {"schema.registry.url": f"{gone.url},{registry.url}", "max.retries": "0"}
    assert RegistryClient(conf).by_id(1).name == "shop.Name"


@pytest.mark.parametrize(
    ("conf", "reason"),
    [
        ({}, "schema.registry.url is missing"),
        ({"schema.registry.url": "localhost:8081"}, "begins with http"),
        ({"schema.registry.url": "http://localhost:many"}, "write http://HOST:PORT"),
        ({"schema.registry.url": "http://[::1"}, "write http://HOST:PORT"),
        ({"schema.registry.url": "http://"}, "write http://HOST:PORT"),
        ({"url": "http://x", "basic.auth.user.info": "me"}, "user:password"),
        ({"url": "http://x", "basic.auth.credentials.source": "USER_INFO"}, "needs basic.auth.user.info"),
        ({"url": "http://x", "basic.auth.credentials.source": "SASL_INHERIT"}, "not known here"),
        ({"url": "http://x", "bearer.auth.credentials.source": "MAGIC"}, "not known here"),
        ({"url": "http://x", "max.retries": "some"}, "no number"),
        ({"url": "http://x", "schema.registry.ssl.truststore.location": "a.jks"}, "read as PEM only"),
    ],
)
def test_wrong_settings_are_named(conf: dict[str, str], reason: str) -> None:
    with pytest.raises(RegistrySettingError, match=reason):
        client_settings(conf)
    with pytest.raises(RegistryError, match=reason):
        RegistryClient(conf)


def test_settings_have_javas_names() -> None:
    found = client_settings(
        {
            "url": "http://other",
            "schema.registry.url": "http://a,http://b",
            "schema.registry.ssl.truststore.location": "ca.pem",
            "schema.registry.ssl.truststore.type": "PEM",
            "http.read.timeout.ms": "1500",
            "linger.ms": "5",
        }
    )
    assert found["url"] == "http://a,http://b"
    assert found["ssl.ca.location"] == "ca.pem"
    assert found["timeout"] == 1.5
    assert "linger.ms" not in found


@pytest.mark.parametrize(
    "conf",
    [
        {"url": "me:secret@localhost:8081"},
        {"url": "http://me:secret@localhost:many"},
        {"url": "http://a", "bearer.auth.token": "secret\nmore"},
    ],
)
def test_refusals_of_settings_show_no_login(conf: dict[str, str]) -> None:
    with pytest.raises(RegistrySettingError) as refused:
        client_settings(conf)
    assert "secret" not in str(refused.value)
