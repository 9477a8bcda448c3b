"""A token issuer for tests: makes tokens, right and forged, and its JWKS document."""

import base64
import json

from joserfc import jws
from joserfc.jwk import ECKey, OctKey, RSAKey

NOW_MS = 1_700_000_000_000
NOW_SECONDS = NOW_MS // 1_000


def encoded(value):
    text = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()


def claims(**changed):
    """Claims that are right at NOW_MS; None takes one away."""
    all_of_them = {
        "iss": "https://issuer",
        "sub": "alice",
        "aud": "kafka",
        "iat": NOW_SECONDS - 10,
        "exp": NOW_SECONDS + 3_600,
        **changed,
    }
    return {name: value for name, value in all_of_them.items() if value is not None}


class Issuer:
    """An issuer with one key."""

    def __init__(self, kid="k1", key=None):
        self.kid = kid
        self.key = key or ECKey.generate_key("P-256")

    @property
    def algorithm(self):
        return {"EC": "ES256", "RSA": "RS256", "oct": "HS256"}[self.key.key_type]

    def public(self, **changed):
        row = {**self.key.as_dict(private=self.key.key_type == "oct"), "kid": self.kid, **changed}
        return {name: value for name, value in row.items() if value is not None}

    def document(self, *others, **changed):
        return json.dumps({"keys": [self.public(**changed), *[each.public() for each in others]]}).encode()

    def token(self, header=None, **changed):
        return self.signed(claims(**changed), header)

    def signed(self, payload, header=None):
        text = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        full = {"alg": self.algorithm, "kid": self.kid, **(header or {})}
        full = {name: value for name, value in full.items() if value is not None}
        registry = jws.JWSRegistry(algorithms=[self.algorithm], strict_check_header=False)
        registry.max_payload_length = 10**8
        return jws.serialize_compact(full, text, self.key, registry=registry)


def rsa_issuer(kid="rsa"):
    return Issuer(kid, RSAKey.generate_key(2048))


def secret_issuer(kid="oct"):
    return Issuer(kid, OctKey.generate_key(256))


def unsigned(payload, algorithm="none"):
    return f"{encoded({'alg': algorithm})}.{encoded(payload)}."
