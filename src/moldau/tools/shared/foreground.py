"""An HTTP service in the foreground: event loop, signals, ready line, exit code."""

from __future__ import annotations

import gc
import json
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeVar

from moldau.common.core.logs import set_up
from moldau.common.settings.rows import SettingError
from moldau.services.http.server import ListenError, run_until_signal
from moldau.tools.shared.errors import FAILED, MISUSED

RunningT = TypeVar("RunningT")
Serve = Callable[[], AbstractAsyncContextManager[Any]]
Ready = tuple[dict[str, Any], str]
"""What a ready line says: facts for programs, and a sentence."""


def run_service(start: Callable[[], Serve], refusals: tuple[type[Exception], ...] = ()) -> int:
    """Run until SIGTERM or SIGINT (0). `start` reads the settings: a SettingError is a sentence and 2. Where
    the service cannot listen, or fails with one of `refusals`: a sentence and 1.
    """
    failures: tuple[type[Exception], ...] = (ListenError, *refusals)
    set_up(os.environ.get("MOLDAU_LOG_LEVEL", "INFO"), as_json=os.environ.get("MOLDAU_LOG_FORMAT") == "json")
    try:
        run_until_signal(start())
    except SettingError as problem:
        print(f"moldau: {problem.sentence}", file=sys.stderr)
        return MISUSED
    except failures as problem:
        print(f"moldau: {problem}", file=sys.stderr)
        return FAILED
    return 0


@asynccontextmanager
async def announced(
    serving: AbstractAsyncContextManager[RunningT], ready: Callable[[RunningT], Ready], as_json: bool
) -> AsyncIterator[RunningT]:
    """The service, once its ready line is printed."""
    async with serving as running:
        gc.collect()
        gc.freeze()  # what is loaded by now stays: collections look at the garbage of requests only
        facts, sentence = ready(running)
        if as_json:
            sentence = json.dumps({"event": "ready", **facts, "pid": os.getpid()})
        print(sentence, flush=True)
        yield running
