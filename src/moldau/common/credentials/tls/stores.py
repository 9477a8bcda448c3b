"""Key stores and trust stores of every format that Kafka takes, as PEM blocks.

    PEM      text in the settings (ssl.keystore.key, ssl.keystore.certificate.chain,
             ssl.truststore.certificates), or a file with all of it
    JKS      a file; also one that is PKCS12 in truth: Java opens those too
    PKCS12   a file

A private key comes as PKCS#8 without a password, but for an encrypted PEM key, which OpenSSL opens itself.
Errors name the setting, the file and the remedy, never a password.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, NoReturn

from moldau.common.credentials.errors import CredentialsError
from moldau.common.credentials.tls import certificate, jks
from moldau.common.credentials.tls.options import TlsOptions
from moldau.common.credentials.tls.pem import Block, block_of, blocks
from moldau.common.credentials.tls.pkcs12 import read_pkcs12

ReadFile = Callable[[str], bytes]
"""A file's bytes; OSError."""

_TYPES = ("PEM", "JKS", "PKCS12")


def read_file(path: str) -> bytes:
    """The bytes of a file of this machine."""
    with open(path, "rb") as file:
        return file.read()


class KeyMaterial(NamedTuple):
    """A private key and its certificate chain, its own first; `password` opens the key (None: it is open)."""

    key: Block
    chain: tuple[Block, ...]
    password: str | None

    def __repr__(self) -> str:
        return f"KeyMaterial({len(self.chain)} certificates)"


class _Store(NamedTuple):
    setting: str  # "ssl.keystore" or "ssl.truststore"
    kind: str
    location: str | None
    password: str | None

    def fail(self, why: str) -> NoReturn:
        where = f"{self.setting}.location={self.location}" if self.location else self.setting
        raise CredentialsError(f"{where}: {why}")

    def data(self, read: ReadFile) -> bytes:
        assert self.location is not None
        try:
            return read(self.location)
        except OSError as error:
            self.fail(f"the file cannot be read: {error.strerror or error}")

    def wrong_password(self) -> NoReturn:
        if self.password is None:
            self.fail(f"the store needs its password: set {self.setting}.password")
        self.fail(f"the store cannot be opened: {self.setting}.password does not fit, or the file is damaged")


def key_material(options: TlsOptions, read: ReadFile = read_file) -> KeyMaterial | None:
    """The key and certificates of one's own; None if none are configured. CredentialsError."""
    if not options.has_keystore:
        if options.keystore_key is not None:
            raise CredentialsError("ssl.keystore.key is set, but ssl.keystore.certificate.chain is not")
        return None
    store = _Store(
        "ssl.keystore", options.keystore_type, options.keystore_location, options.keystore_password
    )
    _check_type(store)
    if options.keystore_certificate_chain is not None:
        return _inline_key(store, options)
    data = store.data(read)
    if store.kind == "PEM":
        return _pem_key(store, blocks(data.decode("utf-8", "replace")), options.key_password)
    return _binary_key(store, data, options.key_password)


def trusted_certificates(options: TlsOptions, read: ReadFile = read_file) -> tuple[Block, ...] | None:
    """The certificates that are trusted; None if none are configured. CredentialsError."""
    store = _Store(
        "ssl.truststore", options.truststore_type, options.truststore_location, options.truststore_password
    )
    _check_type(store)
    if options.truststore_certificates is not None:
        if store.kind != "PEM":
            store.fail("ssl.truststore.certificates is PEM text: set ssl.truststore.type=PEM")
        found = _certificates(blocks(options.truststore_certificates))
    elif store.location is None:
        return None
    elif store.kind == "PEM":
        found = _certificates(blocks(store.data(read).decode("utf-8", "replace")))
    else:
        found = tuple(block_of("CERTIFICATE", der) for der in _trusted_of(store, store.data(read)))
    if not found:
        store.fail("there is no trusted certificate in it")
    return found


def _check_type(store: _Store) -> None:
    if store.kind not in _TYPES:
        raise CredentialsError(
            f"{store.setting}.type={store.kind} is not read; it is one of {', '.join(_TYPES)} "
            "(keytool -importkeystore -deststoretype PKCS12 converts others)"
        )


def _inline_key(store: _Store, options: TlsOptions) -> KeyMaterial:
    if store.kind != "PEM":
        store.fail("ssl.keystore.certificate.chain is PEM text: set ssl.keystore.type=PEM")
    if options.keystore_location is not None:
        store.fail("set either this file or ssl.keystore.certificate.chain, not both")
    if options.keystore_key is None:
        raise CredentialsError("ssl.keystore.certificate.chain is set, but ssl.keystore.key is not")
    both = f"{options.keystore_key}\n{options.keystore_certificate_chain}"
    return _pem_key(store, blocks(both), options.key_password)


def _pem_key(store: _Store, found: Sequence[Block], key_password: str | None) -> KeyMaterial:
    keys = [each for each in found if each.is_key]
    chain = _certificates(found)
    if len(keys) != 1:
        store.fail(f"one private key in PEM (-----BEGIN PRIVATE KEY-----) is expected, {len(keys)} are there")
    if not chain:
        store.fail("there is no certificate in it (-----BEGIN CERTIFICATE-----)")
    if keys[0].is_encrypted and key_password is None:
        store.fail("the private key is encrypted: set ssl.key.password")
    return KeyMaterial(keys[0], chain, key_password if keys[0].is_encrypted else None)


def _certificates(found: Sequence[Block]) -> tuple[Block, ...]:
    labels = ("CERTIFICATE", "X509 CERTIFICATE", "TRUSTED CERTIFICATE")
    return tuple(Block("CERTIFICATE", each.body) for each in found if each.label in labels)


def _binary_key(store: _Store, data: bytes, key_password: str | None) -> KeyMaterial:
    _refuse_pem(store, data)
    try:
        if data.startswith(jks.MAGIC):
            keys = jks.read_jks(data, store.password).keys
            if not keys:
                store.fail("there is no private key in it")
            password = key_password if key_password is not None else store.password
            if password is None:
                store.wrong_password()
            key, chain = jks.private_key(keys[0], password), list(keys[0].chain)
        else:
            found = read_pkcs12(data, store.password)
            if found.key is None or found.certificate is None:
                store.fail("there is no private key with its certificate in it")
            key, chain = found.key, chain_of(found.certificate, found.others)
    except jks.WrongPassword as error:
        if "key" in str(error):
            store.fail(f"{error}: set ssl.key.password")
        store.wrong_password()
    except ValueError as error:
        store.fail(str(error))
    certificates = tuple(block_of("CERTIFICATE", each) for each in chain)
    return KeyMaterial(block_of("PRIVATE KEY", key), certificates, None)


def _trusted_of(store: _Store, data: bytes) -> Sequence[bytes]:
    """Every certificate of a store is trusted, but for chains that belong to a private key, as in Java."""
    _refuse_pem(store, data)
    try:
        if data.startswith(jks.MAGIC):
            return jks.read_jks(data, store.password).trusted
        return read_pkcs12(data, store.password).others
    except jks.WrongPassword:
        store.wrong_password()
    except ValueError as error:
        store.fail(str(error))


def _refuse_pem(store: _Store, data: bytes) -> None:
    if b"-----BEGIN " in data[:4096]:
        store.fail(f"the file is PEM: set {store.setting}.type=PEM (the type is {store.kind})")


def chain_of(own: bytes, others: Sequence[bytes]) -> list[bytes]:
    """The certificate and those that issued it, one after the other, as far as they are there (DER)."""
    parsed = [(certificate.parse(each), each) for each in others]
    chain, last = [own], certificate.parse(own)
    while last.subject != last.issuer:
        issuers = [pair for pair in parsed if pair[0].subject == last.issuer and pair[1] not in chain]
        if not issuers:
            break
        last = issuers[0][0]
        chain.append(issuers[0][1])
    return chain
