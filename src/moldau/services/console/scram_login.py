"""Logins by the brokers' own users: the name and password are tried at a listener that asks for SCRAM.

The password is used for this one connection, and kept nowhere.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from moldau.client.admin.topics import describe_cluster
from moldau.client.cluster import Cluster
from moldau.client.errors import ClientError, Retriable
from moldau.client.login import Denied
from moldau.common.credentials.errors import CredentialsError
from moldau.services.console.access import CheckPassword
from moldau.services.console.settings import ConsoleConfiguration
from moldau.services.http.context import Principal
from moldau.services.http.problems import HttpProblem

_THREADS = 4
_WAITING_MAX = 32
_SECONDS = 10


class ScramLogin:
    """Tries logins in a few threads."""

    def __init__(self, configuration: ConsoleConfiguration) -> None:
        settings = configuration.settings
        own = configuration.client()
        protocol = own.get("security.protocol", "PLAINTEXT").upper()
        self._servers = settings.moldau_console_login_bootstrap_servers or settings.bootstrap_servers
        self._options = {
            **{name: value for name, value in own.items() if name.startswith("ssl.")},
            "security.protocol": "SASL_SSL" if protocol in ("SSL", "SASL_SSL") else "SASL_PLAINTEXT",
            "sasl.mechanism": settings.moldau_console_login_mechanism.upper(),
            "default.api.timeout.ms": str(_SECONDS * 1000),
            "request.timeout.ms": str(_SECONDS * 1000),
        }
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="console-login")
        self._under_way = 0

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    @property
    def check(self) -> CheckPassword:
        """See CheckPassword."""
        return self._check

    async def _check(self, name: str, password: str) -> Principal | None:
        if self._under_way >= _THREADS + _WAITING_MAX:
            raise HttpProblem(503, "Too many logins are under way: try again.", headers={"Retry-After": "2"})
        self._under_way += 1
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._pool, self._tried, name, password)
        finally:
            self._under_way -= 1

    def _tried(self, name: str, password: str) -> Principal | None:
        options = {**self._options, "sasl.username": name, "sasl.password": password}
        try:
            with Cluster(self._servers, options, first_contact_seconds=_SECONDS) as cluster:
                describe_cluster(cluster)
        except Denied:
            return None
        except (ClientError, CredentialsError, Retriable, OSError) as problem:
            if isinstance(problem.__cause__, Denied):
                return None
            raise HttpProblem(503, f"The login cannot be checked at {self._servers}: {problem}") from None
        return Principal(name)
