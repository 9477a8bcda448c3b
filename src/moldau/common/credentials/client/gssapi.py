"""SASL/GSSAPI (RFC 4752) as a client: a Kerberos ticket for the broker's service.

    client   token                                  by a keytab's key, or tickets that kinit brought
    broker   token                                  the broker proves itself
    client   (empty)
    broker   wrap | layers | size 3 |
    client   wrap | layer 1, authentication only | size 3 = 0 |

    com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true keyTab="/etc/alice.keytab"
        principal="alice@REALM";                                             sasl.kerberos.service.name=kafka

Tickets from a keytab are kept by the library in this process's memory, and renewed by it. Every call may
block (it asks the KDC).
"""

import hashlib
from collections.abc import Callable
from typing import Any

from moldau.common.credentials.client.exchange import LoginFailed
from moldau.common.credentials.client.options import SaslOptions
from moldau.common.credentials.errors import CredentialsError
from moldau.common.credentials.gssapi_library import (
    AUTHENTICATION_ONLY,
    SIZE_BYTES,
    NoGssapi,
    error_text,
    load_gssapi,
)

_ROUNDS_MAX = 8


class GssapiExchange:
    """One login."""

    def __init__(self, sasl: SaslOptions, host: str, nonce: Callable[[], str]) -> None:
        del nonce
        try:
            self._gssapi = load_gssapi()
        except NoGssapi as error:
            raise CredentialsError(str(error)) from None
        service = sasl.settings.get("sasl.kerberos.service.name") or sasl.options.get("serviceName")
        if not service:
            raise CredentialsError(
                "GSSAPI needs the name of the broker's Kerberos service: sasl.kerberos.service.name=kafka"
            )
        self._service = f"{service}@{host}"
        self._options = sasl.options
        self._context: Any = None
        self._rounds = 0
        self._chosen = False

    def first(self) -> bytes:
        """The ticket for the broker. CredentialsError: there is none to be had."""
        gssapi = self._gssapi
        try:
            self._context = gssapi.SecurityContext(
                name=gssapi.Name(self._service, gssapi.NameType.hostbased_service),
                creds=_credentials(gssapi, self._options),
                mech=gssapi.MechType.kerberos,
                flags=[gssapi.RequirementFlag.mutual_authentication, gssapi.RequirementFlag.integrity],
                usage="initiate",
            )
            return self._context.step() or b""
        except gssapi.exceptions.GSSError as error:
            raise CredentialsError(f"no Kerberos ticket for {self._service}: {error_text(error)}") from None

    def next(self, challenge: bytes) -> bytes | None:
        """The answer to a challenge; None after the last one."""
        if self._chosen:
            if challenge:
                raise LoginFailed("the server sent another message after the last one of GSSAPI")
            return None
        try:
            if not self._context.complete:
                self._rounds += 1
                if self._rounds > _ROUNDS_MAX:
                    raise LoginFailed("the server's Kerberos exchange does not come to an end")
                return self._context.step(challenge) or b""
            return self._choose(self._context.unwrap(challenge).message)
        except self._gssapi.exceptions.GSSError as error:
            raise LoginFailed(f"{self._service} could not prove who it is: {error_text(error)}") from None

    def _choose(self, offered: bytes) -> bytes:
        if len(offered) != 1 + SIZE_BYTES or not offered[0] & AUTHENTICATION_ONLY:
            raise LoginFailed(
                "the server demands a security layer of Kerberos; only authentication is served"
            )
        self._chosen = True
        answer: bytes = self._context.wrap(bytes([AUTHENTICATION_ONLY]) + bytes(SIZE_BYTES), False).message
        return answer


def _credentials(gssapi: Any, options: Any) -> Any:
    """The client's own credentials; None: the machine's default tickets."""
    keytab, principal = options.get("keyTab"), options.get("principal")
    name = None if not principal else gssapi.Name(principal, gssapi.NameType.kerberos_principal)
    if keytab:
        label = hashlib.sha256(f"{keytab}\0{principal}".encode()).hexdigest()[:16]
        store = {"client_keytab": f"FILE:{keytab}", "ccache": f"MEMORY:moldau-{label}"}
        return gssapi.Credentials(name=name, usage="initiate", store=store)
    cache = options.get("ticketCache")
    if cache:
        return gssapi.Credentials(name=name, usage="initiate", store={"ccache": f"FILE:{cache}"})
    return None if name is None else gssapi.Credentials(name=name, usage="initiate")
