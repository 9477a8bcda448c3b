"""The machine that a broker runs on, as an injected dependency: `Node(settings, host)`.

The broker uses the clock, files, sockets, threads and random numbers of its host, and no others.
`system_host` is this machine. A simulation makes hosts with a time, disk and network of their own, and runs
several whole brokers on one thread from a seed: the same seed gives the same run.

Each broker has a host of its own; brokers of one simulation share only the loop.
"""

import asyncio
import random
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from moldau.broker.metadata.embedded import EmbeddedStore
from moldau.broker.metadata.folder_owner import refuse_without_zookeeper
from moldau.broker.metadata.lock import lock_folder
from moldau.broker.metadata.store import MetadataStore, MetadataStoreError
from moldau.common.core.clock import Clock, SystemClock
from moldau.common.core.files import Files, OsFiles
from moldau.common.core.network import Network, SystemNetwork
from moldau.common.core.slow_lane import SlowLane
from moldau.common.core.timers import LoopTimers, Timers
from moldau.common.core.workers import Pool, thread_pool
from moldau.common.settings.broker import BrokerSettings

if TYPE_CHECKING:
    import ssl

    from moldau.broker.log.compaction.job import CleaningWorker
    from moldau.broker.monitor.process import ProcessFacts
    from moldau.broker.server.dispatch import Dispatch
    from moldau.common.credentials.http_fetch import Response

_WORKER_THREADS = 4


def metadata_store(host: "Host", settings: BrokerSettings, lane: SlowLane) -> MetadataStore:
    """The metadata store that the settings ask for: ZooKeeper's where `zookeeper.connect` is set."""
    if settings.zookeeper_connect is None:
        return embedded_store(host, settings, lane)
    return zookeeper_store(host, settings, lane)


def embedded_store(host: "Host", settings: BrokerSettings, lane: SlowLane) -> MetadataStore:
    """The metadata store of a single broker, in a folder of its own data. MetadataStoreError: the metadata of
    this broker is in ZooKeeper.
    """
    folder = Path(settings.metadata_log_dir or settings.data_directories[0])
    refuse_without_zookeeper(host.files, str(folder.absolute()))
    return EmbeddedStore(
        folder,
        settings.moldau_metadata_snapshot_min_bytes,
        files=host.files,
        lock=lambda folder: lock_folder(folder, host.files, host.process_id),
        offload=lambda blocking: host.loop.run_in_executor(host.workers, blocking),
        lane=lane,
    )


def zookeeper_store(host: "Host", settings: BrokerSettings, lane: SlowLane) -> MetadataStore:
    """The metadata store of a cluster. MetadataStoreError: kazoo is not installed. SettingError."""
    try:
        from moldau.broker.metadata.zookeeper.data_folder import DataFolder
        from moldau.broker.metadata.zookeeper.options import options_of
        from moldau.broker.metadata.zookeeper.store import ZooKeeperStore
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.startswith("kazoo"):
            raise
        raise MetadataStoreError(
            "zookeeper.connect is set, but the package kazoo, with which brokers talk to ZooKeeper, is not "
            "installed: pip install 'moldau[cluster]'"
        ) from error
    folder = Path(settings.metadata_log_dir or settings.data_directories[0])
    return ZooKeeperStore(
        options_of(settings),
        clock=host.clock,
        timers=host.timers,
        source=host.random,
        seconds=host.seconds,
        offload=lambda blocking: host.loop.run_in_executor(host.workers, blocking),
        lane=lane,
        folder=DataFolder(
            folder,
            host.files,
            lambda folder: lock_folder(folder, host.files, host.process_id),
            settings.zookeeper_connect or "",
        ),
    )


def compaction_process(host: "Host") -> "CleaningWorker":
    """A worker process for compaction, which starts with its first job."""
    from moldau.broker.log.compaction.process import ProcessWorker

    return ProcessWorker(host.loop)


def fetch(
    url: str, *, timeout_seconds: float, bytes_max: int, tls: "ssl.SSLContext | None" = None
) -> "Response":
    """Get a URL, blocking; OSError."""
    from moldau.common.credentials import http_fetch

    return http_fetch.fetch(url, timeout_seconds=timeout_seconds, bytes_max=bytes_max, tls=tls)


def boot_id() -> str | None:
    """The kernel's boot id, which containers share with their host; None on other systems than Linux."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip() or None
    except OSError:
        return None


def read_process_facts() -> "ProcessFacts":
    """Facts about this process from the operating system."""
    from moldau.broker.monitor.process import read

    return read()


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class Host:
    """One machine: everything that a broker uses from outside."""

    loop: asyncio.AbstractEventLoop
    """The running event loop; tasks and futures that the broker makes are on it."""
    clock: Clock
    timers: Timers
    random: random.Random
    files: Files
    network: Network
    workers: Executor
    """Runs what would hold the loop up; see core/workers.py. The broker shuts it down when it stops."""
    pool: Pool
    """Makes executors for code that may block, and itself runs in one of the workers."""
    open_files_max: int
    """How many descriptors this process may have open."""
    process_id: int
    seconds: Callable[[], float]
    """A fine counter, by which long work is cut into slices and durations are measured."""
    thread_cpu_seconds: Callable[[], float]
    """CPU time of the calling thread."""
    process_facts: "Callable[[], ProcessFacts]" = read_process_facts
    metadata_store: "Callable[[Host, BrokerSettings, SlowLane], MetadataStore]" = metadata_store
    fetch: "Callable[..., Response]" = fetch
    """Gets a URL; called on a worker."""
    boot_id: Callable[[], str | None] = boot_id
    """Another one after each start of the machine's kernel; None: there is none."""
    cleaning_worker: "Callable[[Host], CleaningWorker]" = compaction_process
    dispatch: "type[Dispatch] | None" = None
    """What hands requests to their handlers; None: the broker's own. A test's puts faults before it."""


def system_host() -> Host:
    """This machine, for a broker on the running event loop."""
    import os
    import resource
    import time

    loop = asyncio.get_running_loop()
    return Host(
        loop=loop,
        clock=SystemClock(),
        timers=LoopTimers(loop),
        random=random.SystemRandom(),
        files=OsFiles(),
        network=SystemNetwork(loop),
        workers=thread_pool(_WORKER_THREADS),
        pool=thread_pool,
        open_files_max=resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        process_id=os.getpid(),
        seconds=time.perf_counter,
        thread_cpu_seconds=time.thread_time,
    )
