"""The console in the foreground: event loop, signals, ready line, exit code."""

from __future__ import annotations

import gc
import json
import logging
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from moldau.common.core.logs import set_up
from moldau.common.settings.rows import SettingError
from moldau.services.console.app import serve_console
from moldau.services.console.settings import ConsoleConfiguration, console_configuration
from moldau.services.http.server import HttpServer, ListenError, run_until_signal
from moldau.tools.shared.errors import FAILED, MISUSED

log = logging.getLogger("moldau.console")


def run_console(texts: Mapping[str, str], *, as_json: bool) -> int:
    """Run until SIGTERM or SIGINT (0); a sentence and 1 where it cannot listen, 2 for a wrong setting."""
    set_up(os.environ.get("MOLDAU_LOG_LEVEL", "INFO"), as_json=os.environ.get("MOLDAU_LOG_FORMAT") == "json")
    try:
        configuration, warnings = console_configuration(texts)
        for warning in warnings:
            log.warning("%s", warning)
        run_until_signal(lambda: _served(configuration, as_json))
    except SettingError as problem:
        print(f"moldau: {problem.sentence}", file=sys.stderr)
        return MISUSED
    except ListenError as problem:
        print(f"moldau: {problem}", file=sys.stderr)
        return FAILED
    return 0


@asynccontextmanager
async def _served(configuration: ConsoleConfiguration, as_json: bool) -> AsyncIterator[HttpServer]:
    async with serve_console(configuration) as server:
        gc.collect()
        gc.freeze()  # what is loaded by now stays: collections look at the garbage of requests only
        _say_ready(server, configuration, as_json)
        yield server


def _say_ready(server: HttpServer, configuration: ConsoleConfiguration, as_json: bool) -> None:
    bootstrap_servers = configuration.settings.bootstrap_servers
    if as_json:
        ready = {
            "event": "ready",
            "addresses": list(server.addresses),
            "bootstrap_servers": bootstrap_servers,
            "pid": os.getpid(),
        }
        print(json.dumps(ready), flush=True)
        return
    print(
        f"the console is ready at {', '.join(server.addresses)}; it shows the cluster at {bootstrap_servers}",
        flush=True,
    )
