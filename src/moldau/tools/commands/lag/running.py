"""The lag service in the foreground: event loop, signals, ready line, exit code."""

from __future__ import annotations

import gc
import json
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from moldau.common.core.logs import set_up
from moldau.common.settings.rows import SettingError
from moldau.services.http.server import HttpServer, ListenError, run_until_signal
from moldau.services.lag.app import serve_lag
from moldau.services.lag.settings import (
    LagConfiguration,
    configuration_of,
    configuration_of_file,
    single_cluster,
)
from moldau.tools.shared.errors import FAILED, MISUSED


def run_lag(
    file: Path | None,
    single: tuple[str, str, Mapping[str, str]],
    texts: Mapping[str, str],
    *,
    as_json: bool,
) -> int:
    """Watch the clusters of a file, or a single one (name, servers, a client's settings), until SIGTERM or
    SIGINT (0); a sentence and 1 where it cannot listen, 2 for a wrong setting."""
    set_up(os.environ.get("MOLDAU_LOG_LEVEL", "INFO"), as_json=os.environ.get("MOLDAU_LOG_FORMAT") == "json")
    try:
        if file is not None:
            configuration = configuration_of_file(file, texts)
        else:
            configuration = configuration_of(single_cluster(*single), texts)
        run_until_signal(lambda: _served(configuration, as_json))
    except SettingError as problem:
        print(f"moldau: {problem.sentence}", file=sys.stderr)
        return MISUSED
    except ListenError as problem:
        print(f"moldau: {problem}", file=sys.stderr)
        return FAILED
    return 0


@asynccontextmanager
async def _served(configuration: LagConfiguration, as_json: bool) -> AsyncIterator[HttpServer]:
    async with serve_lag(configuration) as server:
        gc.collect()
        gc.freeze()  # what is loaded by now stays: collections look at the garbage of requests only
        names = [each.name for each in configuration.clusters]
        if as_json:
            ready = {
                "event": "ready",
                "addresses": list(server.addresses),
                "clusters": names,
                "pid": os.getpid(),
            }
            print(json.dumps(ready), flush=True)
        else:
            where = f"{server.url}/v3/kafka/{names[0]}/consumer"
            print(
                f"the lag service is ready at {server.url} (groups: {where}); it watches {', '.join(names)}",
                flush=True,
            )
        yield server
