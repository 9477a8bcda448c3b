"""The login by SASL on a connection to ZooKeeper: DIGEST-MD5, as the section `Client` of a JAAS file has it.

kazoo calls it on each new connection, from its thread; its own way needs another package.
"""

from collections.abc import Callable
from typing import Any

from kazoo.exceptions import EXCEPTIONS, KazooException
from kazoo.protocol.connection import ConnectionDropped
from kazoo.protocol.serialization import SASL

from moldau.broker.metadata.zookeeper.options import SaslLogin
from moldau.common.credentials.client.digest_md5 import DigestMd5Exchange
from moldau.common.credentials.client.exchange import LoginFailed

URI = "zookeeper/zk-sasl-md5"
"""The same for every server: ZooKeeper has it built in."""


def log_in_by(
    login: SaslLogin, connection: Any, *, accepted: Callable[[], None], refused: Callable[[str], None]
) -> None:
    """Have kazoo's `connection` log in each time it is made. `accepted` is called when that is done, or
    `refused` with the reason; kazoo connects again then, after a while.
    """

    def authenticate(host: str, timeout_seconds: float) -> None:
        try:
            _log_in(connection, login, timeout_seconds)
        except ConnectionDropped:  # perhaps the network
            raise
        except (KazooException, LoginFailed) as error:
            why = str(error) or "the user or the password is wrong, or the server knows no users"
            refused(f"ZooKeeper at {host} refuses the login of {login.username} by SASL: {why}")
            # As if the connection were lost: a session that ends would be begun anew at once.
            raise ConnectionDropped(why) from None
        accepted()

    connection.sasl_options = {}
    connection._authenticate_with_sasl = authenticate


def _log_in(connection: Any, login: SaslLogin, timeout_seconds: float) -> None:
    exchange = DigestMd5Exchange(login.username, login.password, URI)
    answer: bytes | None = exchange.first()
    number = 0
    while answer is not None:
        number += 1
        connection._submit(SASL(answer), timeout_seconds, number)
        header, buffer, offset = connection._read_header(timeout_seconds)
        if header.err:
            known = EXCEPTIONS.get(header.err)
            raise LoginFailed(f"its answer is error {header.err}") if known is None else known()
        challenge, _ = SASL.deserialize(buffer, offset)
        if not challenge:
            raise LoginFailed("it does not speak SASL (its JAAS file has no section Server)")
        answer = exchange.next(challenge)
