"""The client's security settings as a plain socket needs them: whether TLS, with which certificates.

librdkafka says of a failed handshake that it failed. Python's `ssl` says which of a dozen reasons it was, so
the handshake is tried here first, with the same settings. Not here: the SASL exchange, which librdkafka does.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass

from moldau.cli.shared.errors import UsageError

_FALSE = {"false", "0", "f", "n", "no"}
_JAVA_ONLY = {
    "ssl.truststore.location": "ssl.ca.location (a PEM file)",
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.type": "ssl.keystore.location (PKCS12), or ssl.certificate.location and ssl.key.location",
    "sasl.jaas.config": "sasl.username and sasl.password",
}


@dataclass(frozen=True, slots=True)
class Transport:
    """`security.protocol` taken apart; `tls` is the context of a handshake, None for a plain connection."""

    protocol: str
    tls: ssl.SSLContext | None
    mechanism: str | None
    """The SASL mechanism; None without SASL."""

    @property
    def names_checked(self) -> bool:
        """Whether the certificate must name the host."""
        return self.tls is not None and self.tls.check_hostname


def transport_of(settings: Mapping[str, str]) -> Transport:
    """Read the settings of librdkafka's names. UsageError for one that cannot be meant."""
    for name, instead in _JAVA_ONLY.items():
        if name in settings:
            raise UsageError(f"{name} is a setting of Java clients: librdkafka's is {instead}")
    protocol = settings.get("security.protocol", "plaintext").lower()
    if protocol not in ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl"):
        raise UsageError(
            f"security.protocol={protocol!r} is none of plaintext, ssl, sasl_plaintext, sasl_ssl"
        )
    mechanism = None
    if protocol.startswith("sasl_"):
        mechanism = settings.get("sasl.mechanism", settings.get("sasl.mechanisms", "GSSAPI")).upper()
    elif "sasl.mechanism" in settings or "sasl.mechanisms" in settings:
        raise UsageError(
            f"sasl.mechanism is set, but security.protocol={protocol} uses no SASL: "
            "add -X security.protocol=sasl_plaintext or sasl_ssl"
        )
    return Transport(protocol, _context(settings) if protocol.endswith("ssl") else None, mechanism)


def _context(settings: Mapping[str, str]) -> ssl.SSLContext:
    context = ssl.create_default_context()
    try:
        if "ssl.ca.location" in settings:
            context = ssl.create_default_context(cafile=settings["ssl.ca.location"])
        elif "ssl.ca.pem" in settings:
            context = ssl.create_default_context(cadata=settings["ssl.ca.pem"])
        if "ssl.certificate.location" in settings:
            context.load_cert_chain(
                settings["ssl.certificate.location"],
                settings.get("ssl.key.location"),
                settings.get("ssl.key.password", ""),
            )
    except (OSError, ssl.SSLError) as problem:
        named = ", ".join(
            settings[name]
            for name in ("ssl.ca.location", "ssl.certificate.location", "ssl.key.location")
            if name in settings
        )
        raise UsageError(f"the certificates in the settings cannot be used ({named}): {problem}") from None
    if settings.get("ssl.endpoint.identification.algorithm", "https").lower() in ("none", ""):
        context.check_hostname = False
    if settings.get("enable.ssl.certificate.verification", "true").lower() in _FALSE:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


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
