"""`SchemaRegistry`: a real schema registry for a test, beside a broker.

    with Broker() as broker, SchemaRegistry(broker) as registry:
        client = SchemaRegistryClient({"url": registry.url})

It runs in a thread of the test's own process and keeps its schemas in the broker's topic _schemas. Its port
is a free one. Needs the extra `registry`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from moldau.services.http.server import ServerThread
    from moldau.testing.broker import Broker


class SchemaRegistry:
    """A registry for the length of the `with` block; start() and stop() do the same explicitly.

    Settings have Confluent's names. Several on one broker elect the one that writes. May be started again
    after `stop`, on another port.
    """

    def __init__(
        self, broker: Broker | str, settings: Mapping[str, str] | None = None, *, is_read_only: bool = False
    ) -> None:
        """`broker` may be the address of any Kafka."""
        self._broker = broker
        self._settings = dict(settings or {})
        self._is_read_only = is_read_only
        self._thread: ServerThread | None = None

    @property
    def url(self) -> str:
        """Where it is, as clients write it."""
        if self._thread is None:
            raise RuntimeError("the registry is not running: call start()")
        url: str = self._thread.served.url
        return url

    def start(self) -> SchemaRegistry:
        """Start; returns when it answers. Raises what keeps it from starting."""
        from moldau.services.http.server import ServerThread
        from moldau.services.registry.running import serve_registry
        from moldau.services.registry.settings import parse_registry_settings

        servers = self._broker if isinstance(self._broker, str) else self._broker.bootstrap_servers
        texts = {
            "kafkastore.bootstrap.servers": servers,
            "listeners": "http://127.0.0.1:0",
            **self._settings,
        }
        if topic := self._settings.get("kafkastore.topic"):
            # Registries elect the one that writes among those of a group: these have no topic in common.
            texts.setdefault("schema.registry.group.id", f"schema-registry{topic}")
        parsed = parse_registry_settings(texts)
        thread = ServerThread(
            lambda: serve_registry(parsed, is_read_only=self._is_read_only), "moldau-registry"
        )
        thread.start()
        self._thread = thread
        return self

    def stop(self) -> None:
        """Stop; nothing if it does not run."""
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.stop()

    def __enter__(self) -> SchemaRegistry:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()
