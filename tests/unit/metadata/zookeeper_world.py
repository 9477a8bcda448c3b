"""A cluster's metadata on a real ZooKeeper server, for tests: stores behind proxies, and an observer.

Sessions are long in real time, so that none ends by itself on a busy machine: the world ends them.
"""

import asyncio
import json
import random
import time
from concurrent.futures import ThreadPoolExecutor

from kazoo.client import KazooClient
from tcp_proxy import Proxy

from moldau.broker.metadata.zookeeper.layout import Layout
from moldau.broker.metadata.zookeeper.options import Options
from moldau.broker.metadata.zookeeper.store import ZooKeeperStore
from moldau.common.core.clock import SystemClock
from moldau.common.core.timers import LoopTimers

SESSION_MS = 40_000
WAIT_SECONDS = 60
_SOURCE = random.SystemRandom()
_WORKERS = ThreadPoolExecutor(4)


class SlowTimers:
    """Timers of whatever loop runs when they are asked."""

    def call_later(self, delay_ms, callback):
        return LoopTimers(asyncio.get_running_loop()).call_later(delay_ms, callback)


async def in_a_worker(blocking):
    await asyncio.get_running_loop().run_in_executor(_WORKERS, blocking)


async def until(condition, what="the condition"):
    """Wait for a condition, generously."""
    end = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < end, f"{what} did not come true in {WAIT_SECONDS} s"
        await asyncio.sleep(0.005)


class ZooKeeperWorld:
    """One cluster, below a chroot of its own."""

    shared = True
    ends_while_away = (
        0  # only the ensemble can say that it is over: an ensemble that was away goes on with it
    )

    def __init__(self, server, observer, root=None):
        self.server = server
        self.observer = observer
        self.layout = Layout(root or f"/test-{_SOURCE.getrandbits(48):x}/cluster")
        self.stores = {}
        self._snapshot_entries = self._kept_entries = 1_000

    def options(self, hosts=None, **changed):
        return Options(
            hosts=hosts or self.server.connect_string,
            root=self.layout.root,
            session_timeout_ms=SESSION_MS,
            connection_timeout_ms=WAIT_SECONDS * 1_000,
            snapshot_entries=self._snapshot_entries,
            kept_entries=self._kept_entries,
        )._replace(**changed)

    def make(self, folder=None, **changed):
        proxy = Proxy(self.server.ports.client)
        store = ZooKeeperStore(
            self.options(**{"hosts": proxy.address, **changed}),
            clock=SystemClock(),
            timers=SlowTimers(),
            source=_SOURCE,
            seconds=time.perf_counter,
            offload=in_a_worker,
            folder=folder,
        )
        self.stores[store] = proxy
        return store

    def make_forgetful(self):
        self._snapshot_entries = self._kept_entries = 1
        for store in self.stores:
            store.appending.options = self.options(store.appending.options.hosts)
        return self.make()

    def close(self):
        for proxy in self.stores.values():
            proxy.close()

    # What a store should have heard

    def data(self, path):
        return self.observer.get(path)[0]

    def children(self, path):
        return self.observer.get_children(path)

    def head(self):
        return json.loads(self.data(self.layout.head))["version"]

    def _settled(self, store):
        proxy = self.stores[store]
        if proxy.armed:
            return False
        if store.sessions.closed or not store.following.is_followed or proxy.is_cut or store.session is None:
            return True
        live = sorted(self.children(self.layout.live))
        vacant = not self.observer.exists(self.layout.controller)
        epoch = int(self.data(self.layout.controller_epoch))
        return (
            store.session is not None
            and store.session.up
            and store.following.version == self.head()
            and store.following.live is not None
            and sorted(store.following.registrations._known) == live
            and store.following.vacant_after == (epoch if vacant and epoch else None)
        )

    async def settle(self):
        await until(lambda: all(self._settled(store) for store in list(self.stores)), "what is on its way")

    def end_session(self, store):
        """Let the server end the session, as if it had not heard from the store for too long."""
        session = store.session
        client_id = (session.session_id, session._client._session_passwd)
        other = KazooClient(self.server.connect_string, client_id=client_id, timeout=SESSION_MS / 1000)
        other.start(WAIT_SECONDS)
        other.stop()
        other.close()

    async def expire(self, store):
        session = store.session
        await self.disconnect(store)
        self.end_session(store)
        self.stores[store].mend()
        await until(lambda: store.session is not session, "the end of the session")
        await self.settle()

    async def disconnect(self, store):
        self.stores[store].cut()
        await until(lambda: store.session is None or not store.session.up)

    async def reconnect(self, store):
        self.stores[store].mend()
        await until(lambda: store.session is None or store.session.up, "a new connection")
        await self.settle()

    async def wait_ms(self, duration_ms):
        if duration_ms >= 6_000:
            for store, proxy in self.stores.items():
                if proxy.is_cut:
                    self.end_session(store)
        await asyncio.sleep(0.3)
        await self.settle()

    def lose_answer(self, store):
        self.stores[store].lose_answer()
