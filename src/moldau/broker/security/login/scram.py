"""SCRAM-SHA-256 and -512 (RFC 5802): the client proves that it knows a password, the broker that it knows the
stored keys; neither tells the other.

    client first   n,,n=alice,r=NONCE                  server first   r=NONCE+MORE,s=SALT,i=4096
    client final   c=biws,r=NONCE+MORE,p=PROOF         server final   v=SIGNATURE

A name that does not exist gets a server first message too, with a salt derived from the name and a secret of
the cluster: the same every time and on every broker, as a stored salt is. Its length and iterations are those
of some user's credential, likewise chosen by the name. The proof is then compared as any other, and fails.

With the extension `tokenauth=true` the name is the id of a delegation token, and the principal its owner.

Not here: the arithmetic and the syntax (credentials/scram.py), where credentials are stored (metadata/).
"""

import hmac
import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

from moldau.broker.security.login.steps import Accepted, Challenge, Denied, Step
from moldau.common.core.waiting import Answer, then
from moldau.common.credentials.scram import (
    ITERATIONS_DEFAULT,
    ITERATIONS_MIN,
    TOKEN_AUTHENTICATION,
    ScramMechanism,
    ScramSyntaxError,
    base64_bytes,
    base64_text,
    checked_nonce,
    fields,
    message_text,
    proof_is_right,
    server_signature,
    unescaped,
)
from moldau.common.credentials.scram_credential import ScramCredential

_NONCE_BYTES = 24
_SALT_BYTES = 16
_OTHER_ID = Denied(
    "an authorization id that is not the user's",
    "Authentication failed: Client requested an authorization id that is different from username",
)


class Known(NamedTuple):
    """What is known of a name: the credential, the principal it stands for, and for a delegation token when
    it ends (milliseconds since the epoch) and its id."""

    credential: ScramCredential
    principal: str
    expires_ms: int | None = None
    token_id: str | None = None


Find = Callable[[str], Known | None]
FindToken = Callable[[str], Answer[Known | None]]


class ScramStore(NamedTuple):
    """Where the credentials of one mechanism are found: by user name, or by the id of a delegation token.

    `secret`: of the cluster, for the salts of names that do not exist. `shapes`: some stored credentials, as
    patterns for made-up ones.
    """

    user: Find
    token: FindToken
    secret: Callable[[], bytes]
    shapes: Callable[[], Sequence[ScramCredential]]


class Scram:
    """One login by SCRAM."""

    def __init__(self, mechanism: ScramMechanism, store: ScramStore, source: random.Random) -> None:
        self._mechanism = mechanism
        self._store = store
        self._random = source
        self._known: Known | None = None
        self._credential: ScramCredential | None = None  # that of `_known`, or a made-up one
        self._gs2_header = ""
        self._nonce = ""
        self._spoken = ""  # both first messages, as the auth message begins

    def step(self, token: bytes) -> Answer[Step]:
        """The client's first message, then its final one."""
        try:
            text = message_text(token)
            if self._credential is None:
                return self._first(text)
            return self._final(text, self._credential)
        except ScramSyntaxError as error:
            return Denied(str(error))

    def _first(self, text: str) -> Answer[Step]:
        binding, other_id, bare = _header_and_rest(text)
        if binding not in ("n", "y"):
            return Denied("a demand for channel binding, which Kafka does not have")
        (escaped_name, client_nonce), extensions = fields(bare, "n", "r")
        name = unescaped(escaped_name)
        checked_nonce(client_nonce)
        if other_id and other_id != name:
            return _OTHER_ID
        by_token = extensions.get(TOKEN_AUTHENTICATION, "").lower() == "true"
        made_up = self._made_up(f"{by_token}:{name}", self._store.shapes() if not by_token else ())
        self._credential = made_up
        self._gs2_header = text[: len(text) - len(bare)]
        found = self._store.token(name) if by_token else self._store.user(name)
        return then(found, lambda known: self._answer(known, made_up, client_nonce, bare))

    def _answer(self, known: Known | None, made_up: ScramCredential, client_nonce: str, bare: str) -> Step:
        if known is not None and known.credential.iterations < ITERATIONS_MIN:
            known = None  # Kafka stores none such
        credential = made_up if known is None else known.credential
        self._known, self._credential = known, credential
        self._nonce = client_nonce + base64_text(self._random.randbytes(_NONCE_BYTES))
        answer = f"r={self._nonce},s={base64_text(credential.salt)},i={credential.iterations}"
        self._spoken = f"{bare},{answer}"
        return Challenge(answer.encode())

    def _made_up(self, name: str, shapes: Sequence[ScramCredential]) -> ScramCredential:
        """The credential that a name which does not exist seems to have: as one of `shapes`, or, as that of
        a token always is, of the usual shape."""
        mechanism = self._mechanism
        label = f"{mechanism.name}:{name}".encode()
        digest = hmac.digest(self._store.secret(), label, "sha512")
        salt_bytes, iterations = _SALT_BYTES, ITERATIONS_DEFAULT
        if shapes:
            shape = shapes[digest[63] % len(shapes)]
            salt_bytes, iterations = len(shape.salt), max(shape.iterations, ITERATIONS_MIN)
        salt = b""
        while len(salt) < salt_bytes:
            salt += hmac.digest(digest, b"salt %d" % len(salt), "sha512")
        key = hmac.digest(digest, b"key", mechanism.hash_name)
        return ScramCredential(salt[:salt_bytes], key, key, iterations)

    def _final(self, text: str, credential: ScramCredential) -> Step:
        unproven, comma, proof_text = text.rpartition(",p=")
        if not comma:
            return Denied("a final message without a proof")
        (binding, nonce), _ = fields(unproven, "c", "r")
        proof = base64_bytes(proof_text)
        auth_message = f"{self._spoken},{unproven}".encode()
        right = proof_is_right(self._mechanism, credential.stored_key, auth_message, proof)
        if base64_bytes(binding) != self._gs2_header.encode():
            return Denied("another channel binding than at the beginning")
        if not hmac.compare_digest(nonce.encode(), self._nonce.encode()):
            return Denied("another nonce than the one given")
        known = self._known
        if known is None or not right:
            return Denied("the name or the password is wrong")
        signature = server_signature(self._mechanism, credential.server_key, auth_message)
        token = f"v={base64_text(signature)}".encode()
        return Accepted(known.principal, token, known.expires_ms, known.token_id)


def _header_and_rest(text: str) -> tuple[str, str, str]:
    """The GS2 header's channel binding flag and authorization id, and the bare message."""
    binding, comma, rest = text.partition(",")
    authorization, second_comma, bare = rest.partition(",")
    if not (comma and second_comma) or (authorization and not authorization.startswith("a=")):
        raise ScramSyntaxError("a first message without a GS2 header")
    return binding, unescaped(authorization[2:]) if authorization else "", bare
