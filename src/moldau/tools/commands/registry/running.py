"""The registry in the foreground: event loop, signals, ready line, exit code."""

from __future__ import annotations

import gc
import json
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from moldau.common.core.logs import set_up
from moldau.common.settings.rows import SettingError
from moldau.services.http.server import ListenError, run_until_signal
from moldau.services.registry.problems import RegistryProblem
from moldau.services.registry.running import Running, serve_registry
from moldau.services.registry.settings import ParsedSettings, parse_registry_settings
from moldau.tools.shared.errors import FAILED, MISUSED


def run_registry(texts: Mapping[str, str], *, is_read_only: bool, as_json: bool) -> int:
    """Run until SIGTERM or SIGINT (0); a sentence and 1 where it cannot start, 2 for a wrong setting."""
    set_up(os.environ.get("MOLDAU_LOG_LEVEL", "INFO"), as_json=os.environ.get("MOLDAU_LOG_FORMAT") == "json")
    try:
        parsed = parse_registry_settings(texts)
        run_until_signal(lambda: _served(parsed, is_read_only, as_json))
    except SettingError as problem:
        print(f"moldau: {problem.sentence}", file=sys.stderr)
        return MISUSED
    except (ListenError, RegistryProblem) as problem:
        print(f"moldau: {problem}", file=sys.stderr)
        return FAILED
    return 0


@asynccontextmanager
async def _served(parsed: ParsedSettings, is_read_only: bool, as_json: bool) -> AsyncIterator[Running]:
    async with serve_registry(parsed, is_read_only=is_read_only) as running:
        gc.collect()
        gc.freeze()  # the schemas that are there stay: collections look at what is new only
        _say_ready(running, parsed, as_json)
        yield running


def _say_ready(running: Running, parsed: ParsedSettings, as_json: bool) -> None:
    servers = ",".join(parsed.settings.kafkastore_bootstrap_servers)
    if as_json:
        ready = {
            "event": "ready",
            "addresses": list(running.server.addresses),
            "bootstrap_servers": servers,
            "topic": parsed.settings.kafkastore_topic,
            "pid": os.getpid(),
        }
        print(json.dumps(ready), flush=True)
        return
    addresses = ", ".join(running.server.addresses)
    print(
        f"the schema registry is ready at {addresses}; schemas are kept in topic "
        f"{parsed.settings.kafkastore_topic} of {servers}",
        flush=True,
    )
