"""The client's security settings as a plain socket needs them: whether TLS, with which certificates, which
login.

librdkafka says of a failed handshake or login that it failed. Python's `ssl` and our own client say which
of a dozen reasons it was, so both are tried here first, with the same settings, under Java's names or
librdkafka's.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass

from moldau.client.options import ClientOptions
from moldau.common.credentials.client.contexts import context_of
from moldau.common.credentials.client.options import client_security, is_supported
from moldau.common.credentials.errors import CredentialsError
from moldau.tools.shared.errors import UsageError


@dataclass(frozen=True, slots=True)
class Transport:
    """`security.protocol` taken apart; `tls` is the context of a handshake, None for a plain connection."""

    protocol: str
    tls: ssl.SSLContext | None
    mechanism: str | None
    """The SASL mechanism; None without SASL."""
    options: ClientOptions | None = None
    """How our own client logs in; None where it has not the means."""

    @property
    def names_checked(self) -> bool:
        """Whether the certificate must name the host."""
        return self.tls is not None and self.tls.check_hostname


def transport_of(settings: Mapping[str, str], timeout_seconds: float = 5.0) -> Transport:
    """Read the settings. UsageError for one that cannot be meant."""
    protocol = settings.get("security.protocol", "plaintext").lower()
    if protocol not in ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl"):
        raise UsageError(
            f"security.protocol={protocol!r} is none of plaintext, ssl, sasl_plaintext, sasl_ssl"
        )
    named = settings.get("sasl.mechanism", settings.get("sasl.mechanisms"))
    if not protocol.startswith("sasl_"):
        if named is not None:
            raise UsageError(
                f"sasl.mechanism is set, but security.protocol={protocol} uses no SASL: "
                "add -X security.protocol=sasl_plaintext or sasl_ssl"
            )
        return Transport(protocol, _context(settings), None)
    options = _login_options(settings, timeout_seconds)
    sasl = None if options is None else options.security.sasl
    mechanism = (named or "GSSAPI").upper() if sasl is None else sasl.mechanism
    return Transport(protocol, _context(settings), mechanism, options)


def _context(settings: Mapping[str, str]) -> ssl.SSLContext | None:
    """The context of a handshake, without the login: its settings may be incomplete. UsageError."""
    theirs = {name: value for name, value in settings.items() if name.startswith(("ssl.", "enable.ssl."))}
    protocol = "SSL" if settings.get("security.protocol", "").lower().endswith("ssl") else "PLAINTEXT"
    try:
        known = {name: value for name, value in theirs.items() if is_supported(name)}
        return context_of(client_security({**known, "security.protocol": protocol}))
    except CredentialsError as problem:
        raise UsageError(f"the certificates in the settings cannot be used: {problem}") from None


def _login_options(settings: Mapping[str, str], timeout_seconds: float) -> ClientOptions | None:
    theirs = {name: value for name, value in settings.items() if is_supported(name)}
    try:
        security = client_security(theirs)
    except CredentialsError as problem:
        if "sasl.jaas.config" in settings:
            raise UsageError(str(problem)) from None
        return None  # no user is named: the steps up to the login are looked at
    return ClientOptions(
        client_id="moldau-doctor",
        security=security,
        connect_timeout_seconds=timeout_seconds,
        request_timeout_seconds=timeout_seconds,
    )


def explain_handshake(problem: OSError, host: str) -> tuple[str, str]:
    """Return what went wrong in a TLS handshake, and what to do."""
    if isinstance(problem, ssl.SSLCertVerificationError):
        why = problem.verify_message
        if problem.verify_code in (18, 19, 20, 21):
            return (
                f"the broker's certificate is not trusted: {why}",
                "give the authority that signed it: -X ssl.ca.location=FILE.pem",
            )
        if problem.verify_code in (9, 10):
            return f"the broker's certificate is out of date: {why}", (
                "renew it; if it is valid, compare this machine's clock with the broker's"
            )
        if "match" in why.lower():
            return f"the broker's certificate is for another name: {why}", (
                f"connect by a name that the certificate has, or make one that names {host} "
                "(subjectAltName); -X ssl.endpoint.identification.algorithm=none turns the check off"
            )
        return f"the broker's certificate is refused: {why}", "see the certificate with openssl s_client"
    reason = getattr(problem, "reason", None) or ""
    if "CERTIFICATE_REQUIRED" in reason or "HANDSHAKE_FAILURE" in reason or "BAD_CERTIFICATE" in reason:
        return f"the broker refused the handshake ({reason})", (
            "it may want a client certificate: -X ssl.certificate.location=FILE -X ssl.key.location=FILE"
        )
    if isinstance(problem, TimeoutError):
        return "the handshake was not answered", "is it a TLS listener? See the broker's log"
    if isinstance(problem, ConnectionError) or reason == "UNEXPECTED_EOF_WHILE_READING":
        return "the connection was closed during the handshake", "is it a TLS listener? See the broker's log"
    return f"the handshake failed: {problem}", "compare the broker's ssl.* settings with the client's"
