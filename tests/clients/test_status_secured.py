"""`moldau status` and a broker whose HTTP port has TLS and wants a login."""

import pytest

from moldau.testing import Broker, Security
from moldau.tools.commands.status.health_page import HealthRefused, ask_health


@pytest.fixture(scope="module")
def secured_page(tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("status")
    security = Security(folder / "security")
    pair = security.authority.issue("broker")
    key_store = folder / "broker.pem"
    key_store.write_text(pair.key.read_text() + pair.certificate.read_text())
    settings = {
        "moldau.http.security.protocol": "SSL",
        "moldau.http.users": "ops:s3cret",
        "moldau.http.token": "t0ken",
        "listener.name.http.ssl.keystore.type": "PEM",
        "listener.name.http.ssl.keystore.location": str(key_store),
    }
    with Broker(settings) as broker:
        yield broker, str(security.authority.certificate)


@pytest.mark.parametrize("login", ["ops:s3cret", "t0ken"])
def test_with_authority_and_login_the_health_is_shown(secured_page, login: str, monkeypatch) -> None:
    broker, authority = secured_page
    monkeypatch.setenv("MOLDAU_HTTP_LOGIN", login)
    document = ask_health(f"https://{broker.http_address}", {"ssl.ca.location": authority})
    assert document is not None
    assert document["verdict"] == "ok"


def test_without_them_it_says_what_is_missing(secured_page, monkeypatch) -> None:
    broker, authority = secured_page
    monkeypatch.delenv("MOLDAU_HTTP_LOGIN", raising=False)
    with pytest.raises(HealthRefused, match="set MOLDAU_HTTP_LOGIN to NAME:PASSWORD"):
        ask_health(f"https://{broker.http_address}", {"ssl.ca.location": authority})
    with pytest.raises(HealthRefused, match=r"-X ssl.ca.location=FILE"):
        ask_health(f"https://{broker.http_address}")
    monkeypatch.setenv("MOLDAU_HTTP_LOGIN", "ops:wrong")
    with pytest.raises(HealthRefused) as refused:
        ask_health(f"https://{broker.http_address}", {"ssl.ca.location": authority})
    assert "wrong" not in str(refused.value)
    assert ask_health(broker.http_address) is None, "plain HTTP to a port with TLS"
