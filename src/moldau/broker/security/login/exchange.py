"""A login's frames: which request may come when, and what it is answered with.

            | ApiVersions          SaslHandshake          SaslAuthenticate   any other API
    --------+-------------------------------------------------------------------------------
    START   | answer -> NAMED      answer -> TOKENS/BARE  end                end
    NAMED   | end                  answer -> TOKENS/BARE  end                end
    TOKENS  | refuse               refuse                 step               refuse
    BARE    | every frame is a token
    OVER    | end

After a SaslHandshake of version 1 tokens come in SaslAuthenticate requests; after version 0 they come bare,
each behind its length. ApiVersions that were not understood may be asked for again.

`refuse` answers with ILLEGAL_SASL_STATE, as far as the API has a place for it; `end` answers nothing
(`LoginError`). A mechanism that is not offered, and a login that failed, are refused with their own codes.
What is refused is answered late and closed (server/login_gate.py).

A *re-authentication* (KIP-368) begins with SaslHandshake, in NAMED, on a connection that is logged in. It
must use the mechanism and end in the principal of the first login.

Nothing before a login may hold the event loop: only a token may be long, not what is around it. 512 KB of
tagged fields would take a quarter of a second to decode.

Pure: frames in, frames out. What is answered to ApiVersions comes from above (handlers/).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple

from moldau.broker.security.login.steps import Accepted, Challenge, Denied, Mechanism, Offer, Step
from moldau.common.core.waiting import Answer, then
from moldau.common.protocol.errors import ErrorCode
from moldau.common.protocol.frames import RequestHeader, frame_response, is_flexible, parse_request_header
from moldau.common.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from moldau.common.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from moldau.common.protocol.wire import MalformedMessage, read_uvarint

API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE = 18, 17, 36
_TOKEN_SIZE_BYTES = 4
_FLEXIBLE_FROM = 2  # SaslAuthenticate
_REQUEST_BYTES_MAX = 8 * 1024  # without a token; as much as the dispatcher decodes at once


class State(Enum):
    """How far a login is."""

    START = auto()
    NAMED = auto()
    TOKENS = auto()
    BARE = auto()
    OVER = auto()


class LoginError(Exception):
    """The client sent what has no answer: the connection is closed. The text goes on from "it sent"."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What to do next; one of the three classes below. `frame` is to be sent, if there is one."""

    frame: bytes | None


class GoesOn(Reply):
    """Expect another frame."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class LoggedIn(Reply):
    """The client is logged in. `lifetime_ms`: for how long, None for ever."""

    mechanism: str
    accepted: Accepted
    lifetime_ms: int | None


@dataclass(frozen=True, slots=True)
class Failed(Reply):
    """Send the frame after the delay for failed logins, and close. `reason`: for the log."""

    reason: str


class Earlier(NamedTuple):
    """The login that a re-authentication renews."""

    mechanism: str
    principal: str


class AboveLogin(NamedTuple):
    """What a login needs of the handlers.

    `api_versions`: the answer to an ApiVersions request (header, frame), and whether it was understood.
    `illegal_state`: the answer ILLEGAL_SASL_STATE to a request, if its API has a place for it.
    """

    api_versions: Callable[[RequestHeader, bytes], tuple[bytes, bool]]
    illegal_state: Callable[[RequestHeader, str], bytes | None]


class Login:
    """One login, or one re-authentication."""

    def __init__(
        self,
        offered: Callable[[], Mapping[str, Offer]],
        above: AboveLogin,
        now_ms: Callable[[], int],
        earlier: Earlier | None = None,
    ) -> None:
        """`offered`: mechanisms by name, asked for when the client chooses one. `now_ms`: since the epoch."""
        self.state = State.START if earlier is None else State.NAMED
        self._offered = offered
        self._above = above
        self._now_ms = now_ms
        self._earlier = earlier
        self._name = ""  # of the mechanism
        self._reauthentication_ms = 0
        self._mechanism: Mechanism | None = None

    @property
    def takes_bare_tokens(self) -> bool:
        """Whether the next frame is a token, which may be empty."""
        return self.state is State.BARE

    def receive(self, frame: bytes) -> Answer[Reply]:
        """Take the next frame, without its size. LoginError."""
        if self.state is State.BARE:
            return then(self._step(frame), self._bare_reply)
        if self.state is State.OVER:
            raise LoginError("a request after its login had failed")
        try:
            header = parse_request_header(frame)
            if self.state is State.TOKENS:
                return self._receive_token(header, frame)
            if len(frame) > _REQUEST_BYTES_MAX:
                raise LoginError(f"a request of {len(frame)} bytes before it was logged in")
            if header.api_key == API_VERSIONS and self.state is State.START:
                answer, understood = self._above.api_versions(header, frame)
                self.state = State.NAMED if understood else State.START
                return GoesOn(answer)
            if header.api_key == SASL_HANDSHAKE:
                return self._receive_handshake(header, frame)
        except MalformedMessage as error:
            raise LoginError(f"a request that does not parse before it was logged in: {error}") from error
        raise LoginError(f"a request for API {header.api_key} before it was logged in")

    def _receive_handshake(self, header: RequestHeader, frame: bytes) -> Reply:
        _check_version(header, SaslHandshakeRequest)
        name = SaslHandshakeRequest.decode(frame, header.api_version, header.body_offset).mechanism
        offered = self._offered()
        offer = offered.get(name)
        code = ErrorCode.UNSUPPORTED_SASL_MECHANISM if offer is None else ErrorCode.NONE
        response = SaslHandshakeResponse(error_code=code, mechanisms=list(offered))
        answer = frame_response(header.correlation_id, False, response.encode(header.api_version))
        if offer is None:
            return self._fail(answer, "it asked for a SASL mechanism that is not offered")
        self._name, self._reauthentication_ms = name, offer.reauthentication_ms
        self._mechanism = offer.begin()
        if self._earlier is not None and name != self._earlier.mechanism:
            self._mechanism = _OtherMechanism(name, self._earlier.mechanism)
        self.state = State.TOKENS if header.api_version >= 1 else State.BARE
        return GoesOn(answer)

    # Tokens

    def _receive_token(self, header: RequestHeader, frame: bytes) -> Answer[Reply]:
        if header.api_key != SASL_AUTHENTICATE:
            sentence = f"Unexpected Kafka request of type {header.api_key} during SASL authentication."
            refusal = self._above.illegal_state(header, sentence)
            return self._fail(refusal, "it sent another request during a SASL exchange")
        _check_version(header, SaslAuthenticateRequest)
        if header.api_version >= _FLEXIBLE_FROM:
            _check_tags(frame, header.body_offset)
        request = SaslAuthenticateRequest.decode(frame, header.api_version, header.body_offset)

        def answered(response: SaslAuthenticateResponse) -> bytes:
            version = header.api_version
            flexible = is_flexible(SASL_AUTHENTICATE, version)
            return frame_response(header.correlation_id, flexible, response.encode(version))

        def reply(step: Step) -> Reply:
            if isinstance(step, Denied):
                response = SaslAuthenticateResponse(
                    error_code=ErrorCode.SASL_AUTHENTICATION_FAILED,
                    error_message=step.sentence or self._usual_sentence(),
                )
                return self._fail(answered(response), step.reason)
            if isinstance(step, Challenge):
                return GoesOn(answered(SaslAuthenticateResponse(error_message=None, auth_bytes=step.token)))
            assert isinstance(step, Accepted)
            lifetime_ms = self._lifetime_ms(step)
            response = SaslAuthenticateResponse(
                error_message=None, auth_bytes=step.token or b"", session_lifetime_ms=lifetime_ms or 0
            )
            self.state = State.OVER
            return LoggedIn(answered(response), self._name, step, lifetime_ms)

        return then(self._step(request.auth_bytes), reply)

    def _bare_reply(self, step: Step) -> Reply:
        if isinstance(step, Denied):
            return self._fail(None, step.reason)
        assert isinstance(step, Challenge | Accepted)
        token = step.token
        frame = None if token is None else len(token).to_bytes(_TOKEN_SIZE_BYTES, "big") + token
        if isinstance(step, Challenge):
            return GoesOn(frame)
        self.state = State.OVER
        return LoggedIn(frame, self._name, step, self._lifetime_ms(step))

    def _step(self, token: bytes) -> Answer[Step]:
        assert self._mechanism is not None
        return then(self._mechanism.step(token), self._same_principal)

    def _same_principal(self, step: Step) -> Step:
        earlier = self._earlier
        if earlier is None or not isinstance(step, Accepted) or step.principal == earlier.principal:
            return step
        return Denied(
            "it re-authenticated as somebody else",
            "Cannot change principals during re-authentication from "
            f"{earlier.principal.replace(':', '.', 1)}: {step.principal.replace(':', '.', 1)}",
        )

    def _usual_sentence(self) -> str:
        what = "authentication" if self._earlier is None else "re-authentication"
        return (
            f"Authentication failed during {what} due to invalid credentials with SASL mechanism {self._name}"
        )

    def _lifetime_ms(self, accepted: Accepted) -> int | None:
        limits = []
        if accepted.expires_ms is not None:
            limits.append(max(0, accepted.expires_ms - self._now_ms()))
        if self._reauthentication_ms > 0:
            limits.append(self._reauthentication_ms)
        return min(limits, default=None)

    def _fail(self, frame: bytes | None, reason: str) -> Failed:
        self.state = State.OVER
        self._mechanism = None
        return Failed(frame, reason)


class _OtherMechanism:
    """Refuses a re-authentication by another mechanism than before."""

    def __init__(self, asked: str, earlier: str) -> None:
        self._asked, self._earlier = asked, earlier

    def step(self, token: bytes) -> Step:
        del token
        return Denied(
            "it re-authenticated with another mechanism",
            f"SASL mechanism '{self._asked}' requested by client is not supported for re-authentication of "
            f"mechanism '{self._earlier}'",
        )


def _check_tags(frame: bytes, body_offset: int) -> None:
    """LoginError if much follows the token: tagged fields, of which none is defined."""
    try:
        size_bytes, start = read_uvarint(frame, body_offset)  # of the token, and one more
    except IndexError:
        raise MalformedMessage("a SaslAuthenticate request that ends within its token's size") from None
    if len(frame) - start - size_bytes > _REQUEST_BYTES_MAX:
        raise LoginError("a SaslAuthenticate request with many tagged fields")


def _check_version(
    header: RequestHeader, request_type: type[SaslHandshakeRequest] | type[SaslAuthenticateRequest]
) -> None:
    low, high = request_type.VERSIONS
    if not low <= header.api_version <= high:
        name = request_type.__name__.removesuffix("Request")
        raise LoginError(f"{name} in version {header.api_version}, which this broker does not serve")
