"""The interface of a SASL mechanism: an object for one login, which takes the client's tokens one by one.

    token -> Challenge   the client has to answer the token in it
             Accepted    the client is who it says; an empty last token may still be sent
             Denied     it is not; the login is over

A mechanism does nothing but compute. One that has to wait (for keys from a URL, for a library that blocks)
returns an awaitable of the step, and the connection is not read meanwhile.

A `Denied` has two sentences. `reason` is for the log. What the client is told must not differ between a
wrong password and a user who does not exist, so it is the same for all refusals of a mechanism unless a
`sentence` is given.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from moldau.common.core.waiting import Answer


class Step:
    """What a token led to: one of the three classes below."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Challenge(Step):
    """Go on: send this token, and expect another one."""

    token: bytes


@dataclass(frozen=True, slots=True)
class Accepted(Step):
    """The client is `principal` (type:name, as User:alice).

    `token`: to be sent with the success; None sends nothing after a handshake of version 0, where PLAIN and
    SCRAM send an empty or a last token. `expires_ms`: when the credential ends, in milliseconds since the
    epoch. `token_id`: of the delegation token that was used.
    """

    principal: str
    token: bytes | None = b""
    expires_ms: int | None = None
    token_id: str | None = None


@dataclass(frozen=True, slots=True)
class Denied(Step):
    """The login has failed. `reason`: a clause for the log, without anything that the client sent."""

    reason: str
    sentence: str | None = None


class Mechanism(Protocol):
    """One login by one mechanism."""

    def step(self, token: bytes) -> Answer[Step]:
        """Take the client's next token; not called again after `Accepted` or `Denied`."""


Begin = Callable[[], Mechanism]
"""Makes the mechanism of a new login."""


class Offer(NamedTuple):
    """A mechanism that a listener offers. `reauthentication_ms`: after which time a client has to log in
    again (connections.max.reauth.ms); 0: never."""

    begin: Begin
    reauthentication_ms: int = 0
