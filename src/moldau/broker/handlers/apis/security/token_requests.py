"""Who may ask for delegation tokens, for the four APIs of them.

Only a client that has shown who it is, and not with a token: else a token would make others, and live for
ever (KIP-48). So not on a PLAINTEXT listener, and on a TLS listener only with a certificate. (A listener with
SASL has authenticated everybody before their first request.)
"""

from moldau.broker.handlers.parts.session import ANONYMOUS, Session

USER_TYPE = "User"


def may_ask_for_tokens(session: Session) -> bool:
    """Whether requests about delegation tokens are allowed over this connection."""
    if session.token_id is not None or session.security_protocol == "PLAINTEXT":
        return False
    return session.principal != ANONYMOUS
