"""Options -> `ssl.SSLContext`, of a server and of a client.

As Kafka and Java: TLS 1.2 and 1.3; every certificate of a trust store is trusted, also one that is not an
authority's; without a trust store the system's authorities are trusted (Java: its own list). Other than in
Java a handshake of TLS 1.3 gives no session tickets: each connection shows its certificate anew, and the
server saves work that Kafka's clients have no use for.

Keys do not touch the disk: `ssl` reads only files, so they are passed through one in memory where the system
has those.
"""

import contextlib
import os
import ssl
import tempfile
from collections.abc import Iterable, Iterator

from moldau.common.credentials.errors import CredentialsError
from moldau.common.credentials.tls.ciphers import of_tls_1_3, openssl_names
from moldau.common.credentials.tls.old_signatures import allow_sha1, without_public
from moldau.common.credentials.tls.options import SERVED_PROTOCOLS, TlsOptions
from moldau.common.credentials.tls.pem import Block
from moldau.common.credentials.tls.stores import (
    KeyMaterial,
    ReadFile,
    key_material,
    read_file,
    trusted_certificates,
)

_CLIENT_AUTH = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


def server_context(
    options: TlsOptions, read: ReadFile = read_file, material: KeyMaterial | None = None
) -> ssl.SSLContext:
    """The context of a listener; `material` is the key store's, if it was read already. CredentialsError: a
    sentence for the person who configured it."""
    material = material or key_material(options, read)
    if material is None:
        raise CredentialsError(
            "a TLS listener needs a key store: set ssl.keystore.location, or ssl.keystore.type=PEM with "
            "ssl.keystore.key and ssl.keystore.certificate.chain"
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _set_common(context, options)
    context.num_tickets = 0
    _load_key(context, material, options)
    verify = _CLIENT_AUTH.get(options.client_auth)
    if verify is None:
        raise CredentialsError(f"ssl.client.auth={options.client_auth} is none of {', '.join(_CLIENT_AUTH)}")
    if verify is not ssl.CERT_NONE:
        _trust(context, options, read, ssl.Purpose.CLIENT_AUTH)
    context.verify_mode = verify
    return context


def client_context(options: TlsOptions, read: ReadFile = read_file) -> ssl.SSLContext:
    """The context of a client, which may have a certificate of its own. CredentialsError."""
    identification = options.endpoint_identification_algorithm
    if identification not in ("", "https"):
        raise CredentialsError(
            f"ssl.endpoint.identification.algorithm={identification} is neither https nor empty"
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _set_common(context, options)
    context.check_hostname = identification == "https"
    context.verify_mode = ssl.CERT_REQUIRED
    _trust(context, options, read, ssl.Purpose.SERVER_AUTH)
    material = key_material(options, read)
    if material is not None:
        _load_key(context, material, options)
    return context


def _set_common(context: ssl.SSLContext, options: TlsOptions) -> None:
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION | ssl.OP_CIPHER_SERVER_PREFERENCE
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    versions = [_version(name) for name in options.enabled_protocols]
    if options.cipher_suites:
        older = openssl_names(options.cipher_suites)
        if not of_tls_1_3(options.cipher_suites):
            versions = [each for each in versions if each is not ssl.TLSVersion.TLSv1_3]
        if not older:
            versions = [each for each in versions if each is ssl.TLSVersion.TLSv1_3]
        if not versions:
            raise CredentialsError(
                f"ssl.cipher.suites={','.join(options.cipher_suites)} has no suite for "
                f"ssl.enabled.protocols={','.join(options.enabled_protocols)}"
            )
        _set_ciphers(context, older)
    context.minimum_version, context.maximum_version = min(versions), max(versions)


def _version(name: str) -> ssl.TLSVersion:
    version = _VERSIONS.get(name)
    if version is None:
        raise CredentialsError(
            f"ssl.enabled.protocols: {name} is not spoken; use {' or '.join(SERVED_PROTOCOLS)}"
        )
    return version


def _set_ciphers(context: ssl.SSLContext, names: list[str]) -> None:
    for name in names:
        try:
            context.set_ciphers(name)
        except ssl.SSLError:
            raise CredentialsError(f"ssl.cipher.suites: {name} is unknown to {ssl.OPENSSL_VERSION}") from None
    if names:
        context.set_ciphers(":".join(names))


def _trust(context: ssl.SSLContext, options: TlsOptions, read: ReadFile, purpose: ssl.Purpose) -> None:
    trusted = trusted_certificates(options, read)
    if trusted is None:
        context.load_default_certs(purpose)
        return
    where = options.truststore_location or "ssl.truststore.certificates"
    allow_sha1(context, where, without_public(_texts(trusted)), are_trusted=True)
    for each in trusted:
        try:
            context.load_verify_locations(cadata=each.text)
        except (ssl.SSLError, ValueError) as error:
            raise CredentialsError(
                f"the trust store has a certificate that cannot be read: {error}"
            ) from None


def _load_key(context: ssl.SSLContext, material: KeyMaterial, options: TlsOptions) -> None:
    where = options.keystore_location or "ssl.keystore.certificate.chain"
    allow_sha1(context, where, _texts(material.chain))
    pem = material.key.text + "".join(_texts(material.chain))
    try:
        with _file_in_memory(pem.encode()) as path:
            # Not None: OpenSSL would ask on the terminal for the password of an encrypted key.
            context.load_cert_chain(path, password=material.password or "")
    except ssl.SSLError as error:
        raise CredentialsError(f"{where}: {_key_problem(error, material)}") from None
    except (OSError, ValueError) as error:
        raise CredentialsError(f"{where}: the key or its certificate cannot be read: {error}") from None


def _texts(certificates: Iterable[Block]) -> list[str]:
    return [each.text for each in certificates]


def _key_problem(error: ssl.SSLError, material: KeyMaterial) -> str:
    if error.reason in ("KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH", "NO_CERTIFICATE_ASSIGNED"):
        return "the private key does not belong to the first certificate of the chain"
    if error.reason in ("EE_KEY_TOO_SMALL", "CA_KEY_TOO_SMALL", "CA_MD_TOO_WEAK"):
        return f"a key or signature is too weak for OpenSSL ({error.reason}): make a new certificate"
    if material.password is not None:
        return "the private key cannot be opened: ssl.key.password does not fit, or it is damaged"
    return f"the key or its certificate cannot be read ({error.reason or 'no PEM that OpenSSL knows'})"


@contextlib.contextmanager
def _file_in_memory(data: bytes) -> Iterator[str]:
    """A path under which `data` can be read for now, by this process only."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("credentials")
        try:
            os.write(descriptor, data)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    descriptor, path = tempfile.mkstemp()  # readable for this user only
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        yield path
    finally:
        os.unlink(path)
