"""Why a handshake failed: OpenSSL's reason as a sentence for this end's log, and a short name of its kind."""

import ssl
from typing import NamedTuple


class Failure(NamedTuple):
    """A kind, of which there are few, and what happened, about "it", the other end."""

    kind: str
    sentence: str


_OF_REASON = {
    "UNSUPPORTED_PROTOCOL": Failure(
        "version", "it offers only versions of TLS that are not enabled here (ssl.enabled.protocols)"
    ),
    "NO_SHARED_CIPHER": Failure(
        "cipher",
        "it offers no cipher suite that is enabled here "
        "(ssl.cipher.suites), or none for this certificate's key",
    ),
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": Failure(
        "no certificate",
        "it shows no certificate, and "
        "ssl.client.auth=required: give the client a key store (ssl.keystore.location)",
    ),
    "HTTP_REQUEST": Failure("http", "it speaks HTTP without TLS"),
    "WRONG_VERSION_NUMBER": Failure("no tls", "what it sent is no TLS"),
}
_ALERTS_ABOUT_US = ("UNKNOWN_CA", "BAD_CERTIFICATE", "CERTIFICATE_UNKNOWN", "CERTIFICATE_EXPIRED")
"""The other end's alert: it does not accept the certificate of this one."""


def failure_of(error: Exception) -> Failure:
    """What an error in a handshake means."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return Failure(
            "untrusted",
            f"its certificate is not trusted ({error.verify_message}): is its authority in the trust store "
            "(ssl.truststore.location), and is it still valid?",
        )
    if isinstance(error, ssl.SSLError):
        reason = error.reason or ""
        if reason in _OF_REASON:
            return _OF_REASON[reason]
        if "ALERT" in reason and reason.endswith(_ALERTS_ABOUT_US):
            return Failure(
                "not trusted by it",
                f"it does not trust this end's certificate ({_words(reason)}): give it a trust store with "
                "the authority (ssl.truststore.location)",
            )
        return Failure("tls", f"the TLS handshake failed ({_words(reason) or error})")
    if isinstance(error, TimeoutError):
        return Failure("timeout", str(error))
    return Failure("gone", "it ended the connection in the TLS handshake")


def _words(reason: str) -> str:
    return reason.lower().replace("_", " ")
