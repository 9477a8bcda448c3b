"""The client of a connection: principal, listener, client id.

A connection has one `Session`, made when it is accepted. Every request reaches its handler with it: declared
handlers find it in their `RequestContext`, frame handlers in their `Exchange`. Handlers ask with it whether
the client may do something; quotas are charged to it.

A decision based on the session (this client may write to that partition) may be cached while `version` is
unchanged. Each change that such a decision depends on increases it:

    authenticate     another principal, or the same one for longer
    name_client      another client id, to which quotas apply
    rights_changed   ACLs or quotas

So a repeated Produce request costs one comparison of integers (server/dispatch.py) and asks nothing again.

`decisions` is the authorizer's: what it decided for this principal (security/authorizer.py).

Not here: the connection itself (server/connection.py).
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from moldau.broker.security.authorizer import Decisions
    from moldau.broker.security.quotas.limits import ClientLimits

ANONYMOUS = "User:ANONYMOUS"
"""The principal of a client that has not authenticated, as Kafka prints it."""

NO_CLIENT_ID = b"\xff\xff"
"""A null client id in a request's header: | length -1, 2 bytes |."""


class Session:
    """One connection's client. `client_id` is that of the latest request: a handler that waits, while later
    requests are handled, keeps a copy."""

    __slots__ = (
        "authenticated_ms",
        "client_end",
        "client_field",
        "client_host",
        "client_id",
        "client_port",
        "closers",
        "decisions",
        "expires_ms",
        "index",
        "is_closed",
        "limits",
        "limits_known",
        "listener",
        "local_host",
        "local_port",
        "mutes",
        "principal",
        "security_protocol",
        "software_name",
        "software_version",
        "token_id",
        "version",
    )

    def __init__(
        self,
        listener: str,
        security_protocol: str = "PLAINTEXT",
        *,
        client_host: str = "",
        client_port: int = 0,
        client_id: str = "",
    ) -> None:
        """`listener` and `security_protocol` as in listener.security.protocol.map."""
        self.version = 0
        self.listener = listener
        self.security_protocol = security_protocol
        self.client_host = client_host
        self.client_port = client_port
        self.local_host = ""
        self.local_port = 0
        self.index = 0
        self.principal = ANONYMOUS
        self.authenticated_ms: int | None = None  # None: by no mechanism
        self.expires_ms: int | None = None  # None: when the connection ends (else KIP-368)
        self.client_id = client_id  # of the request that is being handled; "" if it has none
        self.client_field = NO_CLIENT_ID  # the same in the header's bytes ...
        self.client_end = 8 + len(NO_CLIENT_ID)  # ... which end there in a frame without its size
        self.limits: ClientLimits | None = None
        """The client's quotas, None: it has none. Looked up again when it, or a quota, has changed, if
        there are any at all (server/dispatch.py)."""
        self.limits_known = False
        self.mutes = 0  # not 0: used more than its quota, and waits for that (Connection.mute)
        self.decisions: Decisions | None = None  # None: the authorizer was not asked yet
        self.software_name = ""  # as ApiVersions said (KIP-511); "" if it did not
        self.software_version = ""
        self.token_id: str | None = None  # of the delegation token that the client logged in with
        self.closers: dict[Callable[[], None], None] | None = None
        self.is_closed = False

    def accepted(self, client: tuple[str, int], local: tuple[str, int], index: int) -> None:
        """The connection's addresses (host and port), and its number among all of its listener."""
        self.client_host, self.client_port = client
        self.local_host, self.local_port = local
        self.index = index

    def when_closed(self, action: Callable[[], None]) -> None:
        """Call `action` when the connection ends; at once, if it has."""
        if self.is_closed:
            action()
            return
        if self.closers is None:
            self.closers = {}
        self.closers[action] = None

    def forget_closed(self, action: Callable[[], None]) -> None:
        """Do not call it any more."""
        if self.closers is not None:
            self.closers.pop(action, None)

    def closed(self) -> None:
        """The connection has ended."""
        self.is_closed = True
        closers, self.closers = self.closers, None
        for action in closers or ():
            action()

    @property
    def connection_id(self) -> str:
        """The connection's name, made as Kafka makes it: both addresses, the network thread (there is one),
        and a number."""
        return f"{self.local_host}:{self.local_port}-{self.client_host}:{self.client_port}-0-{self.index}"

    def authenticate(
        self, principal: str, now_ms: int, expires_ms: int | None = None, token_id: str | None = None
    ) -> None:
        """The client has authenticated as `principal` (type:name), until `expires_ms` if given; by the
        delegation token `token_id`, if by one."""
        self.principal = principal
        self.token_id = token_id
        self.limits, self.limits_known = None, False
        self.decisions = None
        self.authenticated_ms = now_ms
        self.expires_ms = expires_ms
        self.version += 1

    def name_client(self, client_id: str, field: bytes) -> None:
        """The requests bear this client id from now on; `field` is what stands in their headers, with its
        length."""
        self.client_field = field
        self.client_end = 8 + len(field)
        if client_id != self.client_id:
            self.client_id = client_id
            self.limits, self.limits_known = None, False
            self.version += 1

    def rights_changed(self) -> None:
        """ACLs or quotas have changed: decisions about this client are made again."""
        self.limits, self.limits_known = None, False
        self.version += 1
