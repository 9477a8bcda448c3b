"""PLAIN (RFC 4616): the client sends its name and password, which are compared with those of the listener's
JAAS entry.

    | authorization id? | NUL | name | NUL | password |

Only digests are kept and compared, so that neither the time nor this process's memory tells a password, and a
name that does not exist takes the same time as one that does.
"""

import hmac
import random
from collections.abc import Mapping

from moldau.broker.security.login.steps import Accepted, Denied, Step

_WRONG = Denied("the name or the password is wrong", "Authentication failed: Invalid username or password")
_OTHER_ID = Denied(
    "an authorization id that is not the user's",
    "Authentication failed: Client requested an authorization id that is different from username",
)


class PlainUsers:
    """Names and passwords; begins logins. It holds only digests of the passwords."""

    def __init__(self, passwords: Mapping[str, str], source: random.Random) -> None:
        self._key = source.randbytes(32)
        self._digests = {name: self._digest(password.encode()) for name, password in passwords.items()}
        self._nobodys = source.randbytes(32)

    def __repr__(self) -> str:
        return f"PlainUsers({len(self._digests)} users)"

    def _digest(self, password: bytes) -> bytes:
        return hmac.digest(self._key, password, "sha256")

    def match(self, name: str, password: bytes) -> bool:
        """Whether the user exists and has this password."""
        return hmac.compare_digest(self._digests.get(name, self._nobodys), self._digest(password))

    def begin(self) -> "Plain":
        """A new login."""
        return Plain(self)


class Plain:
    """One login by PLAIN, which has one step."""

    def __init__(self, users: PlainUsers) -> None:
        self._users = users

    def step(self, token: bytes) -> Step:
        """Compare name and password."""
        parts = token.split(b"\0", 3)
        if len(parts) != 3:
            return Denied("a token that has not the three parts of PLAIN")
        try:
            other_id, name = parts[0].decode(), parts[1].decode()
            parts[2].decode()
        except UnicodeDecodeError:
            return Denied("a token that is not UTF-8")
        if not name or not parts[2]:
            return Denied("an empty name or password")
        if not self._users.match(name, parts[2]):
            return _WRONG
        if other_id and other_id != name:
            return _OTHER_ID
        return Accepted(f"User:{name}")
