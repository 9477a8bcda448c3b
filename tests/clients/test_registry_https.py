"""A registry with TLS that asks for a certificate: our client, Confluent's, `moldau schemas`, records."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from cryptography.hazmat.primitives import serialization
from registry_clients import AVRO_1, AVRO_2

from moldau.schemas.registry_client import RegistryClient, RegistryError
from moldau.schemas.schema import SchemaText, SchemaType
from moldau.testing import SchemaRegistry
from moldau.testing.authority import Authority, KeyPair
from moldau.tools.app import run

PASSWORD = "of the key"
Typed = Callable[..., tuple[int, str, str]]
"""Runs a command; its exit code, output and errors."""


class Secured(NamedTuple):
    """The registry's address, and who is who."""

    url: str
    authority: Authority
    ann: KeyPair
    bob: KeyPair

    def settings(self, who: KeyPair | None) -> dict[str, str]:
        """Settings of a client, by librdkafka's names."""
        pair = {} if who is None else {
            "ssl.certificate.location": str(who.certificate), "ssl.key.location": str(who.key),
        }  # fmt: skip
        return {"ssl.ca.location": str(self.authority.certificate), **pair}


@pytest.fixture(scope="module")
def secured(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("https")
    authority = Authority(folder)
    rights = folder / "rights"
    rights.write_text("ann all subject:*\nann configure cluster:registry\nbob read subject:*\n")
    settings = {
        "kafkastore.topic": "_schemas_https",
        "listeners": "https://127.0.0.1:0",
        "inter.instance.protocol": "https",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.issue("registry").store),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.certificate),
        "ssl.client.authentication": "REQUIRED",
        "ssl.principal.mapping.rules": "RULE:^CN=([^,]*).*$/$1/",
        "moldau.http.rights.file": str(rights),
    }
    with SchemaRegistry(bootstrap, settings) as registry:
        yield Secured(registry.url, authority, authority.issue("ann"), authority.issue("bob"))


@pytest.fixture
def typed(secured: Secured, capsys: pytest.CaptureFixture[str]) -> Typed:
    def type_it(*words: str, **settings: str) -> tuple[int, str, str]:
        capsys.readouterr()
        named = [word for name, value in settings.items() for word in ("-R", f"{name}={value}")]
        return (run([*words, "--schema-registry", secured.url, *named]), *capsys.readouterr())

    return type_it


def test_our_client_registers_with_a_certificate_and_reads(secured: Secured) -> None:
    assert secured.url.startswith("https://")
    java = {
        "schema.registry.url": secured.url,
        "schema.registry.ssl.truststore.type": "PEM",
        "schema.registry.ssl.truststore.location": str(secured.authority.certificate),
        "schema.registry.ssl.keystore.type": "PEM",
        "schema.registry.ssl.keystore.location": str(secured.ann.store),
    }
    writer = RegistryClient(java)
    reader = RegistryClient({"url": secured.url, **secured.settings(secured.bob)})
    try:
        registered = writer.register("ours-value", SchemaText(SchemaType.AVRO, AVRO_1))
        assert reader.by_id(registered.id).canonical == registered.parsed.canonical
        assert reader.latest("ours-value").version == 1
        with pytest.raises(RegistryError) as refused:
            reader.register("ours-value", SchemaText(SchemaType.AVRO, AVRO_2))
        assert refused.value.error_code == 40301
    finally:
        writer.close()
        reader.close()


def test_confluents_client_registers_with_a_certificate(secured: Secured) -> None:
    with SchemaRegistryClient({"url": secured.url, **secured.settings(secured.ann)}) as client:
        schema_id = client.register_schema("theirs-value", Schema(AVRO_1, "AVRO"))
        assert json.loads(client.get_schema(schema_id).schema_str or "") == json.loads(AVRO_1)


def test_schemas_and_records_are_typed(
    secured: Secured, typed: Typed, bootstrap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann = secured.settings(secured.ann)
    file = tmp_path / "order.avsc"
    file.write_text(AVRO_1)
    assert typed("schemas", "register", "https-orders-value", str(file), **ann)[0] == 0
    assert "https-orders-value" in typed("schemas", "list", "https-", **ann)[1]
    code, _, error = typed("schemas", "delete", "https-orders-value", **secured.settings(secured.bob))
    assert (code, "(40301)" in error) == (1, True)
    line = '{"id":7,"item":"tea"}'
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(f"{line}\n".encode())))
    assert typed("produce", "https-orders", "-b", bootstrap, **ann)[0] == 0
    read = ("consume", "https-orders", "-b", bootstrap, "-n", "1", "--idle", "60")
    code, output, error = typed(*read, **ann)
    assert (code, json.loads(output)) == (0, json.loads(line)), error


def test_who_is_not_trusted_is_told_what_to_set(secured: Secured, typed: Typed, tmp_path: Path) -> None:
    code, _, error = typed("schemas", "list")
    assert (code, "Traceback" in error) == (1, False)
    assert "-R ssl.ca.location=FILE" in error
    code, _, error = typed("schemas", "list", **secured.settings(None))
    assert (code, "Traceback" in error) == (1, False)
    assert "-R ssl.certificate.location=FILE" in error
    code, _, error = typed("schemas", "list", **secured.settings(None), **{"ssl.key.location": "/nowhere"})
    assert (code, "ssl.key.location=/nowhere is no file" in error) == (2, True)
    with pytest.raises(RegistryError, match=r"cannot be reached.*[Cc]ertificate"):
        RegistryClient({"url": secured.url, "max.retries": "0"}).latest("ours-value")


def test_a_key_with_a_password_is_never_asked_for(secured: Secured, typed: Typed, tmp_path: Path) -> None:
    key = serialization.load_pem_private_key(secured.ann.key.read_bytes(), None)
    locked = tmp_path / "locked.pem"
    locked.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(PASSWORD.encode()),
        )
    )
    settings = {**secured.settings(secured.ann), "ssl.key.location": str(locked)}
    assert typed("schemas", "list", **settings, **{"ssl.key.password": PASSWORD})[0] == 0
    for given in ({}, {"ssl.key.password": "another"}):
        code, _, error = typed("schemas", "list", **settings, **given)
        assert code == 2
        assert "ssl.key.password" in error
        with pytest.raises(RegistryError, match=r"ssl\.key\.password"):
            RegistryClient({"url": secured.url, **settings, **given})


def test_https_to_a_registry_without_tls(bootstrap: str, capsys: pytest.CaptureFixture[str]) -> None:
    with SchemaRegistry(bootstrap, {"kafkastore.topic": "_schemas_no_tls"}) as registry:
        url = registry.url.replace("http://", "https://")
        assert run(["schemas", "list", "--schema-registry", url]) == 1
    assert "write http:// instead" in capsys.readouterr().err
