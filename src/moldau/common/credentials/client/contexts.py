"""A client's TLS context, made from files that may change while it runs.

Making one reads and parses key stores (milliseconds, so not on an event loop). It is kept until one of its
files has another time or size: a certificate that was renewed is used by the next
connection, without a restart.
"""

import os
import ssl
import threading
from dataclasses import replace

from moldau.common.credentials.client.options import ClientSecurity
from moldau.common.credentials.errors import CredentialsError
from moldau.common.credentials.tls.contexts import client_context
from moldau.common.credentials.tls.options import TlsOptions

_KEPT_MAX = 16
_kept: dict[ClientSecurity, tuple[tuple[object, ...], ssl.SSLContext]] = {}
_lock = threading.Lock()


def context_of(security: ClientSecurity) -> ssl.SSLContext | None:
    """The context for a connection, None without TLS. CredentialsError."""
    if security.tls is None:
        return None
    key = replace(security, sasl=None)
    state = tuple(_state(path) for path in _files(security))
    with _lock:
        held = _kept.get(key)
        if held is not None and held[0] == state:
            return held[1]
    context = _make(security)
    with _lock:
        if len(_kept) >= _KEPT_MAX:
            _kept.clear()
        _kept[key] = (state, context)
    return context


def tls_of(security: ClientSecurity) -> TlsOptions:
    """The TLS options, with librdkafka's two files, if there are any, read into them. CredentialsError."""
    assert security.tls is not None
    if security.certificate_file is None:
        return security.tls
    return replace(
        security.tls,
        keystore_type="PEM",
        keystore_location=None,
        keystore_certificate_chain=_text(security.certificate_file, "ssl.certificate.location"),
        keystore_key=_text(security.key_file or security.certificate_file, "ssl.key.location"),
    )


def _make(security: ClientSecurity) -> ssl.SSLContext:
    context = client_context(tls_of(security))
    if not security.checks_certificate:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _files(security: ClientSecurity) -> tuple[str, ...]:
    assert security.tls is not None
    own = [each for each in (security.certificate_file, security.key_file) if each is not None]
    return (*security.tls.files, *own)


def _state(path: str) -> tuple[object, ...]:
    try:
        found = os.stat(path)
    except OSError:
        return (path,)
    return (path, found.st_mtime_ns, found.st_size, found.st_ino)


def _text(path: str, name: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError as error:
        raise CredentialsError(f"{name}={path}: the file cannot be read: {error.strerror or error}") from None
