"""Certificates of a private authority, made once."""

import ssl
from typing import NamedTuple

import pytest

from moldau.common.credentials.certificates.authority import Authority, Issued
from moldau.common.credentials.tls.contexts import client_context, server_context
from moldau.common.credentials.tls.options import TlsOptions

NOW_MS = 1_700_000_000_000
DAYS = 20_000


class Pki(NamedTuple):
    """An authority, a broker and a user."""

    authority: Authority
    broker: Issued
    alice: Issued

    def options(self, own: Issued | None, **more: object) -> TlsOptions:
        keys = {} if own is None else {"keystore_key": own.key, "keystore_certificate_chain": own.chain}
        return TlsOptions(
            keystore_type="PEM",
            truststore_type="PEM",
            truststore_certificates=self.authority.certificate,
            **keys,
            **more,  # type: ignore[arg-type]
        )

    def server(self, **more: object) -> ssl.SSLContext:
        return server_context(self.options(self.broker, **more))

    def client(self, own: Issued | None = None, **more: object) -> ssl.SSLContext:
        return client_context(self.options(own, **more))


@pytest.fixture(scope="session")
def pki() -> Pki:
    authority = Authority.make("Test authority", NOW_MS, DAYS + 100)
    return Pki(
        authority,
        authority.issue("broker-1", ["localhost", "127.0.0.1", "::1"], NOW_MS, DAYS),
        authority.issue("CN=alice,O=Shop", [], NOW_MS, DAYS),
    )
