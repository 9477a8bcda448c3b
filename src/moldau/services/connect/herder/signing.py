"""Requests between workers are signed with a key that the leader writes to connect-configs (KIP-507).

X-Connect-Authorization: base64(HMAC(key, body))     X-Connect-Request-Signature-Algorithm: HmacSHA256
"""

from __future__ import annotations

import base64
import hmac
import secrets
from collections.abc import Sequence

from moldau.services.connect.herder.interface import HerderProblem, Signature
from moldau.services.connect.herder.problems import bad_request
from moldau.services.connect.settings import ALGORITHMS, WorkerSettings
from moldau.services.connect.stores.configs import SessionKey

SIGNATURE, ALGORITHM = "X-Connect-Authorization", "X-Connect-Request-Signature-Algorithm"
_KEY_BYTES = 32


def signed(key: SessionKey, algorithm: str, body: bytes) -> dict[str, str]:
    """The headers of a request with this body."""
    digest = hmac.digest(key.key, body, ALGORITHMS[algorithm])
    return {SIGNATURE: base64.b64encode(digest).decode(), ALGORITHM: algorithm}


def check(key: SessionKey | None, accepted: Sequence[str], signature: Signature) -> None:
    """Return for a request that a worker of this group has sent. HerderProblem 400, 403."""
    algorithm = signature.algorithm
    if signature.value is None or algorithm is None:
        raise bad_request("Internal request missing required signature")
    if algorithm not in accepted:
        raise bad_request(
            f"This worker does not support the '{algorithm}' key signing algorithm used by other workers. "
            f"This worker is currently configured to use: {', '.join(accepted)}. Check that all workers' "
            "configuration files permit the same set of signature algorithms, and correct any misconfigured "
            "worker and restart it."
        )
    if key is None:
        raise HerderProblem(
            403, "Cannot verify a request's signature: no session key is known to this worker"
        )
    if not hmac.compare_digest(hmac.digest(key.key, signature.body, ALGORITHMS[algorithm]), signature.value):
        raise HerderProblem(403, "Internal request contained invalid signature.")


def key_needed(known: SessionKey | None, settings: WorkerSettings, now_ms: int) -> SessionKey | None:
    """A new key, if there is none or it is too old."""
    ttl_ms = settings.inter_worker_key_ttl_ms
    if known is not None and (ttl_ms <= 0 or now_ms < known.created_ms + ttl_ms):
        return None
    size = (settings.inter_worker_key_size or _KEY_BYTES * 8) // 8
    return SessionKey(secrets.token_bytes(size), settings.inter_worker_key_generation_algorithm, now_ms)
