"""A folder of certificates: a private authority, key stores of brokers and users, and settings that use them.

    authority.pem          what everybody trusts         authority.key.pem   who has it can make certificates
    broker.pem             key and chain                 broker.properties   settings of a broker
    alice.pem              key and chain                 alice.properties    settings of a client

Everything with a key is readable for this user only, and is written before its settings. What is there is
kept, unless it is to be renewed; the authority is never made anew, since all trust it. A renewed certificate
names the hosts of the one before, since clients connect by them, and its settings stay as they are.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from moldau.common.credentials.errors import CredentialsError, MissingPackage
from moldau.tools.shared.errors import CommandError

if TYPE_CHECKING:
    from moldau.common.credentials.certificates.authority import Authority

AUTHORITY, AUTHORITY_KEY = "authority.pem", "authority.key.pem"
_NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")

BROKER_SETTINGS = """\
# A listener with TLS, added to the broker's settings. Clients show a certificate, whose CN is the user.
listeners=PLAINTEXT://127.0.0.1:9092,SSL://{address}:9093
ssl.keystore.type=PEM
ssl.keystore.location={store}
ssl.truststore.type=PEM
ssl.truststore.location={authority}
ssl.client.auth=required
ssl.principal.mapping.rules=RULE:^CN=([^,]+).*$/$1/,DEFAULT
"""

CLIENT_SETTINGS = """\
# For --command-config of moldau's and Kafka's tools, and for Java clients.
security.protocol=SSL
ssl.keystore.type=PEM
ssl.keystore.location={store}
ssl.truststore.type=PEM
ssl.truststore.location={authority}
"""


class CertificateFolder:
    """The folder, and what was written into it."""

    def __init__(self, path: Path, now_ms: int, days: int) -> None:
        self.path = path.absolute()
        self.written: list[str] = []
        self.kept: list[str] = []
        self._now_ms = now_ms
        self._days = days
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._authority = self._load_authority()
        except OSError as error:
            raise CommandError(f"{path} cannot be written: {error.strerror}") from None
        except TypeError:  # what cryptography says of a key with a password
            raise CommandError(
                f"{path / AUTHORITY_KEY} is encrypted, and there is no way to give its password: take the "
                "password off, or name another folder"
            ) from None
        except MissingPackage as error:
            raise CommandError(str(error)) from None
        except (CredentialsError, ValueError) as error:
            raise CommandError(f"the authority in {path} cannot be read: {error}") from None

    def _load_authority(self) -> Authority:
        from moldau.common.credentials.certificates.authority import Authority

        key, certificate = self.path / AUTHORITY_KEY, self.path / AUTHORITY
        if key.exists() != certificate.exists():
            there, lacks = (key, certificate) if key.exists() else (certificate, key)
            raise CommandError(f"{there} is there, but {lacks.name} is not: name another folder")
        if key.exists():
            self.kept.append(AUTHORITY)
            return Authority.load(key.read_text(), certificate.read_text())
        made = Authority.make("Moldau private authority", self._now_ms)
        self._write(AUTHORITY_KEY, made.key, secret=True)
        self._write(AUTHORITY, made.certificate)
        return made

    def add_broker(self, name: str, hosts: Sequence[str], *, address: str, renew: bool) -> None:
        """A broker's key store; it also serves it as a client of other brokers. `address`: that its settings
        listen on; empty for every interface.
        """
        self._add(name, hosts, BROKER_SETTINGS, address=address, renew=renew)

    def add_user(self, name: str, *, renew: bool) -> None:
        """A user's key store."""
        self._add(name, (), CLIENT_SETTINGS, renew=renew)

    def _add(self, name: str, hosts: Sequence[str], settings: str, *, address: str = "", renew: bool) -> None:
        if not name or not _NAME_CHARACTERS.issuperset(name) or name in ("authority", "authority.key"):
            raise CommandError(f"'{name}' cannot be a name here: take letters, digits, dots, - and _", 2)
        store = self.path / f"{name}.pem"
        if store.exists() and not renew:
            self.kept.append(store.name)
            return
        if hosts:
            hosts = list(dict.fromkeys([*hosts, *_hosts_of(store)]))
        try:
            issued = self._authority.issue(name, hosts, self._now_ms, self._days)
        except ValueError as error:
            raise CommandError(f"no certificate can be made for {name}: {error}", 2) from None
        self._write(store.name, issued.keystore, secret=True)
        if (self.path / f"{name}.properties").exists():
            self.kept.append(f"{name}.properties")
            return
        text = settings.format(store=store, authority=self.path / AUTHORITY, address=address)
        self._write(f"{name}.properties", text)

    def _write(self, name: str, text: str, *, secret: bool = False) -> None:
        """Beside the old one, then over it: a broker that looks at its file never sees half of it."""
        beside = self.path / f".{name}.new"
        try:
            beside.unlink(missing_ok=True)
            descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if secret else 0o644)
            with os.fdopen(descriptor, "w") as file:
                file.write(text)
            beside.replace(self.path / name)
        except OSError as error:
            raise CommandError(f"{self.path / name} cannot be written: {error.strerror}") from None
        self.written.append(name)


def _hosts_of(store: Path) -> list[str]:
    """The hosts that the certificate of a key store names; none if there is no such store."""
    from moldau.common.credentials.tls import certificate, pem

    try:
        found = [each for each in pem.blocks(store.read_text()) if each.label == "CERTIFICATE"]
        names = certificate.parse(found[0].der).alternative_names
    except (OSError, ValueError, IndexError):
        return []
    return [name.partition(":")[2] for name in names]
