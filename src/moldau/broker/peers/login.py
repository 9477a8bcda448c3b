"""The login of one connection to another broker, and its repetition before the session ends (KIP-368).

    greeted -> login -> ready -> (85 to 95 % of the session's life) -> held -> login -> ready ...

The steps of a mechanism run on a worker: hashing a password takes milliseconds, and others ask a token or
ticket server. Credentials are read anew for each login, so that a changed password counts from the next one
on.

Invariant: whatever goes wrong ends the connection, with a reason that has no secret in it.
"""

import asyncio
import base64
import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from moldau.broker.peers.call import Call
from moldau.broker.peers.connection import PeerConnection
from moldau.broker.peers.host import PeerHost
from moldau.broker.peers.peers import PeerError
from moldau.client.errors import ClientError
from moldau.client.login import LoggedIn, LoginRequest, advance, login_steps
from moldau.common.core.timers import TimerHandle
from moldau.common.credentials.client.exchange import NONCE_BYTES, LoginFailed
from moldau.common.credentials.client.options import ClientSecurity
from moldau.common.credentials.errors import CredentialsError

log = logging.getLogger("moldau.peers")


class PeerLogin:
    """Logs a connection in when it has greeted, and again while it lasts."""

    def __init__(
        self,
        connection: PeerConnection,
        security: Callable[[], ClientSecurity],
        host: PeerHost,
        *,
        name: str,
        server: str,
        timeout_ms: int,
    ) -> None:
        """`name` is for messages, `server` the host that was connected to."""
        self._connection = connection
        self._security = security
        self._host = host
        self._name, self._server = name, server
        self._timeout_ms = timeout_ms
        self._task: asyncio.Task[None] | None = None
        self._timers: list[TimerHandle] = []

    def begin(self) -> None:
        """Log in; the connection is ready at the end of it."""
        limit = partial(self._connection.end, f"no login within {self._timeout_ms} ms")
        self._timers = [self._host.timers.call_later(self._timeout_ms, limit)]
        self._task = self._host.loop.create_task(self._run())

    def stop(self) -> None:
        """The connection has ended."""
        self._stop_timers()
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        try:
            done = await self._log_in()
        except (ClientError, LoginFailed, CredentialsError) as error:
            self._connection.end(f"the login failed: {error}")
            return
        except PeerError:
            return  # it has ended, for another reason
        except asyncio.CancelledError:
            raise
        except Exception:
            log.exception("a login at another broker failed: this is a bug")
            self._connection.end("the login failed")
            return
        self._stop_timers()
        again_ms = done.again_after_ms(self._host.random)
        if again_ms is not None:
            self._timers = [self._host.timers.call_later(again_ms, self._again)]
        self._connection.be_ready()

    async def _log_in(self) -> LoggedIn:
        sasl = self._security().sasl
        if sasl is None:
            raise CredentialsError("the settings for connections between brokers name no SASL any more")
        steps = login_steps(sasl, self._server, self._name, self._connection.versions, self._nonce)
        step = await self._on_worker(partial(advance, steps, None))
        while not isinstance(step, LoggedIn):
            response = await self._ask(step)
            step = await self._on_worker(partial(advance, steps, response))
        return step

    async def _on_worker(self, work: Callable[[], LoginRequest | LoggedIn]) -> LoginRequest | LoggedIn:
        return await self._host.loop.run_in_executor(self._host.workers, work)

    def _ask(self, step: LoginRequest) -> "asyncio.Future[Any]":
        future: asyncio.Future[Any] = self._host.loop.create_future()
        call = Call(step.request, step.version, step.version, future)
        call.version = step.version
        if self._connection.ended:
            call.fail(f"{self._name}: the connection ended")
        else:
            self._connection.send(call, step.request.encode(step.version))
        return future

    def _nonce(self) -> str:
        return base64.urlsafe_b64encode(self._host.random.randbytes(NONCE_BYTES)).decode()

    def _again(self) -> None:
        self._connection.hold()
        self.begin()

    def _stop_timers(self) -> None:
        timers, self._timers = self._timers, []
        for timer in timers:
            timer.cancel()
