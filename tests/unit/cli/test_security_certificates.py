"""`moldau security certificates`: what is written, what is kept, and that both ends take it."""

import json
import stat
from pathlib import Path

import pytest

from moldau.common.core.properties import parse_properties
from moldau.common.credentials.errors import missing_extra
from moldau.common.credentials.tls import certificate, pem
from moldau.common.credentials.tls.contexts import client_context, server_context
from moldau.common.credentials.tls.options import tls_options
from moldau.tools.app import run
from moldau.tools.commands.security.folder import CertificateFolder


def test_a_broker_and_its_users_get_what_they_need(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "certs"
    assert run(["security", "certificates", str(folder), "--user", "alice", "--host", "b.example"]) == 0
    said = capsys.readouterr()
    assert f"moldau serve --config {folder}/broker.properties" in said.err
    broker = parse_properties((folder / "broker.properties").read_text())
    alice = parse_properties((folder / "alice.properties").read_text())
    server_context(tls_options(broker.get))
    client_context(tls_options(alice.get))
    parsed = certificate.parse(pem.blocks((folder / "broker.pem").read_text())[1].der)
    assert {"DNS:b.example", "DNS:localhost", "IP:127.0.0.1"} <= set(parsed.alternative_names)
    for name in ("authority.key.pem", "broker.pem", "alice.pem"):
        assert stat.S_IMODE((folder / name).stat().st_mode) == 0o600
    assert "PRIVATE" not in (folder / "authority.pem").read_text()


def test_what_is_there_is_kept_and_renewed_only_when_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "certs"

    def again(*words: str) -> dict[str, list[str]]:
        assert run(["security", "certificates", str(folder), *words, "--json"]) == 0
        answer: dict[str, list[str]] = json.loads(capsys.readouterr().out)
        return answer

    first = again()
    assert first["written"] == ["authority.key.pem", "authority.pem", "broker.pem", "broker.properties"]
    authority, store = (folder / "authority.pem").read_bytes(), (folder / "broker.pem").read_bytes()
    second = again("--user", "bob")
    assert second["kept"] == ["authority.pem", "broker.pem"]
    assert second["written"] == ["bob.pem", "bob.properties"]
    assert (folder / "broker.pem").read_bytes() == store
    third = again("--renew")
    assert "broker.pem" in third["written"]
    assert (folder / "broker.pem").read_bytes() != store
    assert (folder / "authority.pem").read_bytes() == authority


def test_a_renewed_certificate_names_the_hosts_of_the_one_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "certs"
    assert run(["security", "certificates", str(folder), "--host", "b.example", "--host", "10.0.0.7"]) == 0
    settings = folder / "broker.properties"
    settings.write_text(settings.read_text() + "super.users=User:admin\n")
    store = (folder / "broker.pem").read_bytes()
    assert run(["security", "certificates", str(folder), "--renew"]) == 0
    assert (folder / "broker.pem").read_bytes() != store
    parsed = certificate.parse(pem.blocks((folder / "broker.pem").read_text())[1].der)
    assert {"DNS:b.example", "IP:10.0.0.7", "DNS:localhost", "IP:::1"} <= set(parsed.alternative_names)
    assert "super.users" in settings.read_text()


def test_renewing_a_user_leaves_the_broker_alone(tmp_path: Path) -> None:
    folder = tmp_path / "certs"
    words = ["security", "certificates", str(folder), "--user", "alice"]
    assert run(words) == 0
    store, own = (folder / "broker.pem").read_bytes(), (folder / "alice.pem").read_bytes()
    assert run([*words, "--renew"]) == 0
    assert (folder / "broker.pem").read_bytes() == store
    assert (folder / "alice.pem").read_bytes() != own


def test_an_encrypted_authority_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from cryptography.hazmat.primitives import serialization

    assert run(["security", "certificates", str(tmp_path)]) == 0
    file = tmp_path / "authority.key.pem"
    key = serialization.load_pem_private_key(file.read_bytes(), None)
    form, secret = serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"secret")
    file.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, secret))
    capsys.readouterr()
    assert run(["security", "certificates", str(tmp_path), "--user", "bob"]) == 1
    assert "is encrypted" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--user", "../evil"], 2, "cannot be a name"),
        (["--user", "authority"], 2, "cannot be a name"),
        (["--user", "broker"], 2, "give the user another name"),
        (["--host", "ä b"], 2, "no certificate can be made"),
    ],
)
def test_what_cannot_be_made_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], code: int, said: str
) -> None:
    assert run(["security", "certificates", str(tmp_path / "c"), *words]) == code
    assert said in capsys.readouterr().err


def test_half_an_authority_is_no_authority(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "authority.pem").write_text("")
    assert run(["security", "certificates", str(tmp_path)]) == 1
    assert "but authority.key.pem is not" in capsys.readouterr().err


@pytest.mark.parametrize(("words", "address"), [([], "127.0.0.1"), (["--host", "b.example"], "")])
def test_only_who_names_a_host_listens_beyond_this_machine(
    tmp_path: Path, words: list[str], address: str
) -> None:
    assert run(["security", "certificates", str(tmp_path / "certs"), *words]) == 0
    broker = parse_properties((tmp_path / "certs" / "broker.properties").read_text())
    assert broker["listeners"] == f"PLAINTEXT://127.0.0.1:9092,SSL://{address}:9093"


def test_a_missing_package_is_named_and_nothing_else_is_blamed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(*_: object) -> None:
        raise missing_extra("making certificates", "cryptography")

    monkeypatch.setattr(CertificateFolder, "_load_authority", missing)
    assert run(["security", "certificates", str(tmp_path / "certs")]) == 1
    said = capsys.readouterr().err
    assert (
        said == "moldau: making certificates needs the package cryptography: pip install 'moldau[security]'\n"
    )
