"""A login that a ZooKeeper server asks of its clients, and of the other members of its ensemble.

    FOLDER/jaas.conf     the one user and its password, readable by the owner only

By SASL (DIGEST-MD5), ZooKeeper's own mechanism that needs no Kerberos: the password does not cross the
connection. A session without a login is ended; so is a member's connection. What stays open to every process
that reaches the port is the four-letter word `srvr`, which says whether the server serves.

Not here: TLS; a client's side of the login (metadata/zookeeper/login.py).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

FILE = "jaas.conf"
_MODULE = "org.apache.zookeeper.server.auth.DigestLoginModule"
_QUORUM_THREADS = "20"  # as ZooKeeper's guide has it: a login must not hold up the others


class Login(NamedTuple):
    """The user that all clients and members log in as."""

    username: str
    password: str

    def __repr__(self) -> str:
        return f"Login({self.username!r}, [hidden])"

    @property
    def jaas(self) -> str:
        """The entry with which a client logs in, as `moldau.zookeeper.sasl.jaas.config` has it."""
        return f"{_MODULE} required username={_quoted(self.username)} password={_quoted(self.password)};"


def write_users(folder: Path, login: Login) -> Path:
    """Write the server's users; nobody but the owner may read the file, from its first moment on."""
    users = f"{_MODULE} required user_{login.username}={_quoted(login.password)};"
    sections = {"Server": users, "QuorumServer": users, "QuorumLearner": login.jaas}
    path = folder / FILE
    temporary = path.with_name(f"{FILE}.new")
    temporary.unlink(missing_ok=True)
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write("".join(f"{name} {{\n  {entry}\n}};\n" for name, entry in sections.items()))
    temporary.replace(path)
    return path


def java_options(users: Path) -> tuple[str, ...]:
    """What Java is told for this."""
    # Members refuse to log in at each other by DIGEST-MD5 in FIPS mode, which is on by default (3.9).
    return (f"-Djava.security.auth.login.config={users}", "-Dzookeeper.fips-mode=false")


def settings(*, is_member: bool) -> dict[str, str]:
    """The lines of zoo.cfg."""
    lines = {
        "authProvider.sasl": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
        "sessionRequireClientSASLAuth": "true",
        "4lw.commands.whitelist": "srvr",
    }
    if is_member:
        lines |= {
            "quorum.auth.enableSasl": "true",
            "quorum.auth.learnerRequireSasl": "true",
            "quorum.auth.serverRequireSasl": "true",
            "quorum.auth.learner.loginContext": "QuorumLearner",
            "quorum.auth.server.loginContext": "QuorumServer",
            "quorum.cnxn.threads.size": _QUORUM_THREADS,
        }
    return lines


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
