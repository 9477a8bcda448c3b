"""The agent in the foreground: event loop, signals, ready line, exit code."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys

from moldau.common.core.logs import set_up
from moldau.kit.agent.program import Agent, AgentError
from moldau.kit.agent.settings import AgentSettings
from moldau.kit.spool import SpoolError


def run_agent(settings: AgentSettings, *, as_json: bool) -> int:
    """Run until SIGTERM or SIGINT (0), or until the agent cannot go on (1, with a sentence)."""
    set_up(os.environ.get("MOLDAU_LOG_LEVEL", "INFO"), as_json=os.environ.get("MOLDAU_LOG_FORMAT") == "json")
    _raise_descriptor_limit()
    try:
        import uvloop

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            why = runner.run(_run(settings, as_json))
    except (AgentError, SpoolError) as problem:
        why = str(problem)
    except OSError as problem:
        named = f"{problem.filename}: " if problem.filename else ""
        why = f"the agent cannot start: {named}{problem.strerror or problem}"
    if why:
        print(f"moldau: {why}", file=sys.stderr)
        return 1
    return 0


async def _run(settings: AgentSettings, as_json: bool) -> str:
    """Returns why it ended; "" if it was asked to."""
    agent = Agent(settings)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await agent.start()
    _say_ready(agent, as_json)
    asked, ended = asyncio.ensure_future(stop.wait()), asyncio.ensure_future(agent.wait_ended())
    await asyncio.wait({asked, ended}, return_when=asyncio.FIRST_COMPLETED)
    why = ended.result() if ended.done() else ""
    for future in (asked, ended):
        future.cancel()
    await agent.stop()
    return why


def _say_ready(agent: Agent, as_json: bool) -> None:
    if as_json:
        ready = {
            "event": "ready",
            "socket": str(agent.socket_path),
            "http_address": agent.http_address,
            "udp_address": agent.udp_address,
            "id": agent.delivery.transactional_id,
            "pid": os.getpid(),
        }
        print(json.dumps(ready), flush=True)
        return
    also = "".join(
        f", {name} {address}"
        for name, address in (("HTTP", agent.http_address), ("UDP", agent.udp_address))
        if address
    )
    print(f"the agent is ready: messages go to {agent.socket_path}{also}", flush=True)


def _raise_descriptor_limit() -> None:
    """Raise the limit of file descriptors (connections, segments) to the hard limit."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
