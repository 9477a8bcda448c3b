"""The broker as a program: event loop, signals, ready line, exit code.

The ready line goes to standard output once clients are served; all else goes to the log on standard error. A
failed start is one sentence there, without a traceback.
"""

import asyncio
import gc
import json
import logging
import os
import signal
import sys
from collections.abc import Coroutine, Mapping
from typing import TYPE_CHECKING, Any

from moldau.broker.log.files.directory import DirectoryUnusable
from moldau.broker.metadata.store import MetadataStoreError
from moldau.broker.node import Node
from moldau.broker.server.addresses import AddressError, shown
from moldau.common.core.heap import keep_freed_memory
from moldau.common.core.kernels import complaints
from moldau.common.core.logs import set_up
from moldau.common.settings.rows import SettingError
from moldau.common.settings.sources import StaticSettings
from moldau.tools.commands.serve.frozen_heap import LOOKS_EVERY_SECONDS, FrozenHeap

if TYPE_CHECKING:
    from moldau.tools.commands.serve.services import Services

log = logging.getLogger("moldau.node")


def run(settings: StaticSettings, *, as_json: bool = False, services: "Services | None" = None) -> int:
    """Run a broker, and services beside it, until SIGTERM or SIGINT; prints the ready line. Returns the exit
    code."""
    set_up(os.environ.get("MOLDAU_LOG_LEVEL", "INFO"), as_json=os.environ.get("MOLDAU_LOG_FORMAT") == "json")
    for complaint in complaints():
        log.warning(complaint)
    _raise_descriptor_limit()
    try:
        return _new_event_loop_run(_serve(settings, as_json, services))
    except (AddressError, MetadataStoreError, DirectoryUnusable, SettingError) as error:
        print(f"moldau: {error}", file=sys.stderr)
    except OSError as error:
        if error.filename:
            what = f"{error.filename} cannot be used ({error.strerror}); name another with --data"
        else:
            what = str(error)
        print(f"moldau: the broker cannot start: {what}", file=sys.stderr)
    return 1


async def _serve(settings: StaticSettings, as_json: bool, services: "Services | None") -> int:
    node = Node(settings)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    started = asyncio.ensure_future(node.start())
    stopped = asyncio.ensure_future(stop.wait())
    await asyncio.wait({started, stopped}, return_when=asyncio.FIRST_COMPLETED)
    if not started.done():
        log.info("stopped before the start was over")
        started.cancel()
        await asyncio.wait({started})
        return 0
    await started
    urls: dict[str, str] = {}
    if services is not None:
        scheme = "http" if node.http_tls is None else "https"
        health_url = f"{scheme}://{node.http_address}".replace("//0.0.0.0:", "//127.0.0.1:")
        begun = asyncio.ensure_future(services.start(node.address, health_url if node.http_address else ""))
        await asyncio.wait({begun, stopped}, return_when=asyncio.FIRST_COMPLETED)
        problem = begun.exception() if begun.done() else None
        if problem is not None or not begun.done():
            return await _end(node, services, problem)
        urls = begun.result()
    _say_ready(node, as_json, urls)
    # What was made until now stays, so the collector need not look at it again.
    heap = FrozenHeap(lambda: node.replicas.partition_count)
    heap.begin()
    gc.enable()
    keep_freed_memory(os.environ)
    while not stopped.done():
        heap.look()
        await asyncio.wait({stopped}, timeout=LOOKS_EVERY_SECONDS)
    log.info("stopping")
    return await _end(node, services, None)


async def _end(node: Node, services: "Services | None", problem: BaseException | None) -> int:
    """Stop the services, then the broker that they use."""
    if services is not None:
        await services.stop()
    await node.stop()
    if problem is None:
        return 0
    from moldau.tools.commands.serve.services import ServiceFailed

    if not isinstance(problem, ServiceFailed):
        raise problem
    print(f"moldau: {problem}", file=sys.stderr)
    return 1


def _say_ready(node: Node, as_json: bool, services: Mapping[str, str]) -> None:
    listeners = {each.name: f"{shown(each.host)}:{each.port}" for each in node.listeners.all}
    if as_json:
        ready = {
            "event": "ready",
            "bootstrap_servers": node.address,
            "listeners": listeners,
            "http_address": node.http_address,
            "node_id": node.node_id,
            "cluster_id": node.metadata.image.cluster_id,
            "log_dirs": list(node.static.broker.data_directories),
            "pid": os.getpid(),
            **{f"{name}_url": url for name, url in services.items()},
        }
        print(json.dumps(ready), flush=True)
        return
    scheme = "http" if node.http_tls is None else "https"
    watch = f"; health and metrics at {scheme}://{node.http_address}" if node.http_address else ""
    where = ", ".join(node.static.broker.data_directories)
    beside = "".join(f"; {name} at {url}" for name, url in services.items())
    clients = node.address
    if len(listeners) > 1:
        clients = ", ".join(f"{address} ({name})" for name, address in listeners.items())
    print(
        f"moldau is ready: clients connect to {clients}{watch}{beside}; records are kept in {where}",
        flush=True,
    )


def _new_event_loop_run(main: Coroutine[Any, Any, int]) -> int:
    """Run on uvloop if installed, else on asyncio's event loop."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(main)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)


def _raise_descriptor_limit() -> None:
    """Raise the limit of file descriptors (connections, segments) to the hard limit."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
