"""Why a token is refused: for the broker's log. A client only learns that it is."""


class TokenRefused(Exception):
    """The token is not accepted. The text never holds a part of the token's signature or secret."""


class UnknownKey(TokenRefused):
    """No key of the issuer fits the token; there may be a newer one."""
