"""`moldau serve --with registry,rest,connect,lag,console`: HTTP services in the broker's process.

Each has a thread with an event loop of its own, and reaches the broker over a socket, as it would from
another machine. They start when the broker serves and stop before it. Imported only where they are asked for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

from moldau.common.settings.rows import SettingError
from moldau.tools.commands.serve.command import MISUSED, SERVICES, Mistake, split_address

if TYPE_CHECKING:
    from moldau.services.http.server import ServerThread

_PORTS = {"registry": "8081", "rest": "8082", "connect": "8083", "lag": "8000", "console": "8080"}
_TITLES = {
    "registry": "the schema registry",
    "rest": "the REST proxy",
    "connect": "the Connect worker",
    "lag": "the lag service",
    "console": "the console",
}

Serving = Callable[[], AbstractAsyncContextManager[Any]]


class ServiceFailed(Exception):
    """A service cannot start; the text says which, why, and what to do."""


class Services:
    """The services that were asked for, with their settings."""

    def __init__(self, texts: Mapping[str, Mapping[str, str]]) -> None:
        """`texts`: settings by service."""
        self.texts = texts
        self._running: list[ServerThread] = []

    async def start(self, broker_address: str, health_url: str = "") -> dict[str, str]:
        """Start them, beside a broker that serves (and tells its health at `health_url`); their addresses.
        ServiceFailed."""
        loop = asyncio.get_running_loop()
        urls: dict[str, str] = {}
        for name in SERVICES:  # the proxy uses the registry, so that comes first
            if name not in self.texts:
                continue
            known = {**urls, "health": health_url} if health_url else urls
            thread = await loop.run_in_executor(None, self._started, name, broker_address, known)
            urls[name] = thread.served.url
        return urls

    async def stop(self) -> None:
        """Stop them, the last first."""
        loop = asyncio.get_running_loop()
        while self._running:
            await loop.run_in_executor(None, self._running.pop().stop)

    def _started(self, name: str, broker_address: str, urls: Mapping[str, str]) -> ServerThread:
        from moldau.services.http.server import ListenError, ServerThread
        from moldau.services.registry.problems import RegistryProblem

        try:
            thread = ServerThread(_serving(name, self.texts[name], broker_address, urls), f"moldau-{name}")
            self._running.append(thread)
            thread.start()
        except SettingError as problem:
            raise ServiceFailed(f"{_TITLES[name]} cannot start: {problem.sentence}") from None
        except (ListenError, RegistryProblem) as problem:
            raise ServiceFailed(f"{_TITLES[name]} cannot start: {problem}") from None
        except _refusals(name) as problem:
            raise ServiceFailed(f"{_TITLES[name]} cannot start: {problem}") from None
        return thread


def _refusals(name: str) -> tuple[type[Exception], ...]:
    """What the start of a service may raise beside what all may."""
    if name != "connect":
        return ()
    from moldau.client.errors import ClientError
    from moldau.services.connect.stores.kafka_log import LogFailed
    from moldau.services.connect.stores.topics import TopicRefused

    return (ClientError, LogFailed, TopicRefused, TimeoutError)


def _serving(name: str, texts: Mapping[str, str], broker_address: str, urls: Mapping[str, str]) -> Serving:
    if name == "registry":
        from moldau.services.registry.running import serve_registry
        from moldau.services.registry.settings import parse_registry_settings

        parsed = parse_registry_settings({"kafkastore.bootstrap.servers": broker_address, **texts})
        return lambda: serve_registry(parsed)
    if name == "connect":
        return _serving_connect(texts, broker_address, urls)
    if name == "lag":
        from moldau.services.lag.app import serve_lag
        from moldau.services.lag.settings import configuration_beside

        configured = configuration_beside(broker_address, texts)
        return lambda: serve_lag(configured)
    if name == "console":
        return _serving_console(texts, broker_address, urls)
    from moldau.services.rest.app import serve_rest
    from moldau.services.rest.settings import rest_configuration

    given = {"bootstrap.servers": broker_address, **texts}
    if "registry" in urls:
        # Where it listens on every interface, this machine's own is one of them.
        given = {"schema.registry.url": urls["registry"].replace("//0.0.0.0:", "//127.0.0.1:"), **given}
    configuration, _ = rest_configuration(given)
    return lambda: serve_rest(configuration)


def _serving_connect(texts: Mapping[str, str], broker_address: str, urls: Mapping[str, str]) -> Serving:
    from moldau.services.connect.running import serve_connect
    from moldau.services.connect.settings import worker_configuration
    from moldau.tools.commands.connect.run import DEFAULTS

    given = {**DEFAULTS, "bootstrap.servers": broker_address, **texts}
    if "registry" in urls:
        url = urls["registry"].replace("//0.0.0.0:", "//127.0.0.1:")
        for side in ("key", "value"):
            given.setdefault(f"{side}.converter.schema.registry.url", url)
    configuration = worker_configuration(given)
    return lambda: serve_connect(configuration)


def _serving_console(texts: Mapping[str, str], broker_address: str, urls: Mapping[str, str]) -> Serving:
    from moldau.services.console.app import serve_console
    from moldau.services.console.settings import console_configuration

    given = {"bootstrap.servers": broker_address}
    for service, setting in (
        ("registry", "schema.registry.url"),
        ("connect", "moldau.console.connect.urls"),
        ("health", "moldau.console.health.urls"),
    ):
        if service in urls:
            given[setting] = urls[service].replace("//0.0.0.0:", "//127.0.0.1:")
    configuration, _ = console_configuration({**given, **texts})
    return lambda: serve_console(configuration)


def services_of(names: str, assignments: Sequence[str]) -> Services:
    """What `--with` asks for, with the settings of --set that are theirs. Mistake."""
    texts: dict[str, dict[str, str]] = {}
    for part in names.split(","):
        name, equals, address = part.strip().partition("=")
        if name not in SERVICES:
            raise Mistake(
                f"--with {part.strip()} is not known: write {', '.join(SERVICES[:-1])} or {SERVICES[-1]}",
                MISUSED,
            )
        texts[name] = {}
        if equals:
            address = f":{address}" if address.isdigit() else address
            host, port = split_address(address, _PORTS[name])
            texts[name]["listeners"] = f"http://{host or '127.0.0.1'}:{port}"
    for assignment in assignments:
        name, dot, rest = assignment.strip().partition(".")
        if name in SERVICES and dot:
            setting, equals, value = rest.partition("=")
            if name not in texts or not equals:
                raise Mistake(f"--set {assignment} is for a service that --with does not name", MISUSED)
            texts[name][setting.strip()] = value.strip()
    _check_installed(texts)
    return Services(texts)


def _check_installed(texts: Mapping[str, Mapping[str, str]]) -> None:
    """Before the broker starts: packages, and settings as far as they can be checked by then. Mistake."""
    for name, given in texts.items():
        try:
            _serving(name, given, "127.0.0.1:9092", {})
        except ImportError as missing:
            raise Mistake(
                f"{_TITLES[name]} is not installed ({missing.name}): pip install 'moldau[{name}]'"
            ) from None
        except SettingError as problem:
            raise Mistake(
                f"{_TITLES[name]}: {problem.sentence}: correct it and start again", MISUSED
            ) from None
