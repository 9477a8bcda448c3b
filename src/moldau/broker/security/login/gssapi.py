"""SASL/GSSAPI (RFC 4752): the client shows a Kerberos ticket for this broker's service.

    client  token         broker  token            as often as Kerberos needs it; the broker proves itself too
    client  (empty)       broker  wrap | layers 1 | size 3 |            layers: 1, authentication only
    client  wrap | layer 1 | size 3 | user |                            layer must be 1

The broker's key is in a keytab. The principal that the ticket names becomes a user name by
`sasl.kerberos.principal.to.local.rules`. The user in the client's last message is not used, as in Kafka: who
the client is, the ticket says.

Every step runs on a worker, since the library reads files and may wait for name servers. Not here: rules
(security/kerberos_names.py).
"""

from collections.abc import Awaitable, Callable
from typing import Any

from moldau.broker.security.kerberos_names import KerberosNames, NoName
from moldau.broker.security.login.steps import Accepted, Challenge, Denied, Step
from moldau.common.core.waiting import Answer
from moldau.common.credentials.gssapi_library import (
    AUTHENTICATION_ONLY,
    SIZE_BYTES,
    NoGssapi,
    error_text,
    load_gssapi,
)

Run = Callable[[Callable[[], Step]], Awaitable[Step]]
_ROUNDS_MAX = 8


class KerberosError(Exception):
    """The broker's own Kerberos identity cannot be used; the text says why."""


class Acceptor:
    """The broker's Kerberos identity: a principal and its key."""

    def __init__(self, keytab: str, principal: str | None) -> None:
        """Reads the keytab. KerberosError: the package is missing, or the keytab has no key of the principal
        (None: of any)."""
        try:
            self.gssapi = load_gssapi()
        except NoGssapi as error:
            raise KerberosError(str(error)) from None
        gssapi = self.gssapi
        try:
            name = None
            if principal is not None:
                name = gssapi.Name(principal, gssapi.NameType.kerberos_principal)
            self.credentials = gssapi.Credentials(
                name=name,
                usage="accept",
                mechs=[gssapi.MechType.kerberos],
                store={"keytab": f"FILE:{keytab}"},
            )
            self.realm = _realm(principal) or _realm(self._default_name())
        except gssapi.exceptions.GSSError as error:
            whose = "any principal" if principal is None else principal
            raise KerberosError(
                f"the keytab {keytab} cannot be used for {whose}: {error_text(error)}"
            ) from None

    def _default_name(self) -> str:
        gssapi = self.gssapi
        name = gssapi.Name("kafka", gssapi.NameType.user)
        return str(name.canonicalize(gssapi.MechType.kerberos))

    def context(self) -> Any:
        """A security context for one login."""
        context = self.gssapi.SecurityContext(creds=self.credentials, usage="accept")
        context.__DEFER_STEP_ERRORS__ = False  # else an error shows at the next step only
        return context


def _realm(principal: str | None) -> str:
    return "" if principal is None else principal.rpartition("@")[2] if "@" in principal else ""


class Gssapi:
    """One login by GSSAPI."""

    def __init__(self, acceptor: Acceptor, names: KerberosNames, run: Run) -> None:
        self._acceptor = acceptor
        self._names = names
        self._run = run
        self._context: Any = None
        self._rounds = 0
        self._offered = False
        """Whether the layers have been sent."""

    def step(self, token: bytes) -> Answer[Step]:
        """The client's next token."""
        return self._run(lambda: self._blocking_step(token))

    def _blocking_step(self, token: bytes) -> Step:
        try:
            if self._offered:
                return self._last(token)
            return self._next(token)
        except self._acceptor.gssapi.exceptions.GSSError as error:
            return Denied(f"Kerberos refused it: {error_text(error)}")

    def _next(self, token: bytes) -> Step:
        if self._context is None:
            self._context = self._acceptor.context()
        context = self._context
        answer = b""
        if not context.complete:
            self._rounds += 1
            if self._rounds > _ROUNDS_MAX:
                return Denied("its Kerberos exchange does not come to an end")
            answer = context.step(token) or b""
        elif token:
            return Denied("it sent a token after its Kerberos exchange was over")
        if answer or not context.complete:
            return Challenge(answer)
        self._offered = True
        layers = bytes([AUTHENTICATION_ONLY]) + bytes(SIZE_BYTES)
        return Challenge(context.wrap(layers, False).message)

    def _last(self, token: bytes) -> Step:
        chosen = self._context.unwrap(token).message
        if len(chosen) < 1 + SIZE_BYTES or chosen[0] != AUTHENTICATION_ONLY:
            return Denied("it chose a security layer, and there is only authentication")
        principal = str(self._context.initiator_name)
        try:
            user = self._names.user(principal)
        except NoName as error:
            return Denied(f"its Kerberos principal is no user here: {error}")
        return Accepted(f"User:{user}")
