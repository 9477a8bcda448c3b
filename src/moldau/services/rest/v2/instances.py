"""All consumer instances: made by name in a group, found again, ended when they are not used any more.

Their number is limited, because each has a client of Kafka with threads and buffers; what all of these fetch
ahead is bounded (prefetch.py). Twice a second (`TICK_SECONDS`) the idle ones are polled once, so that they
follow changes in their groups: a group cannot go on while a member keeps partitions that are to move.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, KafkaException

from moldau.client.librdkafka_settings import client_settings, create
from moldau.services.http.context import ANONYMOUS
from moldau.services.http.problems import HttpProblem
from moldau.services.kafka.byte_budget import ByteBudget
from moldau.services.rest.settings import RestSettings
from moldau.services.rest.v2.errors import (
    NOT_AUTHORIZED,
    TOO_MANY,
    already_exists,
    instance_not_found,
    invalid_config,
)
from moldau.services.rest.v2.instance import Instance, InstanceConfig
from moldau.services.rest.v2.prefetch import PrefetchShares, with_buffers

if TYPE_CHECKING:
    from moldau.services.rest.schema_choice import Schemas

log = logging.getLogger("moldau.rest")

TICK_SECONDS = 0.5
PATTERN_SECONDS = 10.0
IDLE_BYTES_MAX = 1024 * 1024
"""An idle instance that keeps so many bytes for its next read is not polled any more."""
_THREADS_MAX = 1_000
_CLOSE_SECONDS = 10.0
_DEFAULTS: Mapping[str, Any] = {
    "client.id": "moldau-rest",
    "auto.offset.reset": "latest",
    "enable.auto.commit": "true",
    "queued.min.messages": "10000",
    "fetch.queue.backoff.ms": "10",
    "log.connection.close": "false",
}
_TRUTHS = {"true": True, "false": False}


class Instances:
    """For one event loop; `start` is called by the first instance."""

    def __init__(
        self, settings: RestSettings, consumer: Mapping[str, str], schemas: Schemas, unsent: ByteBudget
    ) -> None:
        """`consumer` are a consumer's settings under Java's names; `unsent` counts what responses hold.
        CredentialsError."""
        self.settings = settings
        self.schemas = schemas
        self.unsent = unsent
        self._settings = client_settings(consumer, _DEFAULTS)
        self._prefetch = PrefetchShares(
            settings.moldau_rest_consumer_prefetch_bytes_max, settings.moldau_rest_consumer_instances_max
        )
        self._by_name: dict[tuple[str, str], Instance | None] = {}
        threads = settings.consumer_threads
        self._pool = ThreadPoolExecutor(
            threads if threads > 0 else _THREADS_MAX, thread_name_prefix="rest-consumer"
        )
        self._ticking: asyncio.Task[None] | None = None
        self._background: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._by_name)

    async def create(
        self, group: str, name: str | None, config: InstanceConfig, owner: str = ANONYMOUS.name
    ) -> Instance:
        """A new instance; a name is made up if there is none. HttpProblem 40902, 42204, 42901."""
        if name is None:
            name = "-".join(("rest-consumer", *filter(None, (self.settings.id, str(uuid.uuid4())))))
        if (group, name) in self._by_name:
            raise already_exists()
        if len(self._by_name) >= self._prefetch.instances_max:
            raise HttpProblem(
                TOO_MANY,
                f"There are {len(self._by_name)} consumer instances, as many as the proxy allows: delete one "
                "(moldau.rest.consumer.instances.max, moldau.rest.consumer.prefetch.bytes.max)",
            )
        settings = self._consumer_settings(group, config)
        self._by_name[group, name] = None  # the name is taken while the client starts
        share_bytes = self._prefetch.take()
        settings = with_buffers(share_bytes, settings)
        made = None
        try:
            consumer = await asyncio.get_running_loop().run_in_executor(
                self._pool, lambda: create(lambda known: Consumer(known, logger=log), settings)
            )
            auto_commit = settings["enable.auto.commit"] == "true"
            made = Instance(group, name, config, consumer, auto_commit, self._pool, owner)
            made.prefetch_bytes = share_bytes
            self._by_name[group, name] = made
        except KafkaException as wrong:
            raise invalid_config(wrong.args[0].str()) from None
        finally:
            if made is None:
                self._by_name.pop((group, name), None)
                self._prefetch.give_back(share_bytes)
        if self._ticking is None:
            self._ticking = asyncio.get_running_loop().create_task(self._tick())
        return made

    def _consumer_settings(self, group: str, config: InstanceConfig) -> dict[str, Any]:
        settings = dict(self._settings)
        if config.auto_commit is not None:
            settings["enable.auto.commit"] = config.auto_commit
        if config.offset_reset is not None:
            if config.offset_reset not in ("latest", "earliest", "none"):
                raise invalid_config(
                    f"Invalid value {config.offset_reset[:100]} for configuration auto.offset.reset: "
                    "String must be one of: latest, earliest, none"
                )
            settings["auto.offset.reset"] = "error" if config.offset_reset == "none" else config.offset_reset
        auto_commit = str(settings["enable.auto.commit"]).lower()
        if auto_commit not in _TRUTHS:
            raise invalid_config(
                f"Invalid value {auto_commit[:100]} for configuration enable.auto.commit: "
                "Expected value to be either true or false"
            )
        settings |= {
            "enable.auto.commit": auto_commit,
            "enable.auto.offset.store": "false",
            "group.id": group,
        }
        return settings

    def get(self, group: str, name: str, owner: str = ANONYMOUS.name) -> Instance:
        """An instance, which counts as used now. HttpProblem 40403; 40301 if it is another user's: what it
        reads was allowed to whoever made it."""
        found = self._by_name.get((group, name))
        if found is None or found.closed:
            raise instance_not_found()
        if found.owner != owner:
            raise HttpProblem(NOT_AUTHORIZED, f"The consumer instance is not User:{owner}'s.")
        found.used_at = time.monotonic()
        return found

    async def remove(self, group: str, name: str, owner: str = ANONYMOUS.name) -> None:
        """End an instance: it leaves its group. HttpProblem 40403, 40301."""
        found = self.get(group, name, owner)
        del self._by_name[group, name]
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                await asyncio.shield(asyncio.ensure_future(self._end(found, processed=True)))
        except TimeoutError:
            log.info("consumer %s/%s is still leaving its group", group, name)

    async def _end(self, instance: Instance, *, processed: bool) -> None:
        try:
            await instance.close(processed=processed)
        finally:
            self._prefetch.give_back(instance.prefetch_bytes)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_SECONDS)
            for instance in list(self._by_name.values()):
                if instance is None or instance.closed:
                    continue
                try:
                    self._look_after(instance, time.monotonic())
                except Exception:
                    log.exception("consumer %s/%s: this is a bug", instance.group, instance.name)
                await asyncio.sleep(0)  # there may be hundreds

    def _look_after(self, instance: Instance, now: float) -> None:
        if not instance.running and self._is_expired(instance, now):
            log.info("consumer %s/%s was not used for long, and ends", instance.group, instance.name)
            del self._by_name[instance.group, instance.name]
            self._in_background(self._end(instance, processed=False))
            return
        if instance.subscription.pattern is not None and now >= instance.pattern_due_at:
            instance.pattern_due_at = now + PATTERN_SECONDS
            self._in_background(self._follow_pattern(instance))
        if not instance.running and instance.unread_bytes() < IDLE_BYTES_MAX and instance.is_assigned():
            self._follow_group(instance)

    def _is_expired(self, instance: Instance, now: float) -> bool:
        return (now - instance.used_at) * 1000 >= self.settings.consumer_instance_timeout_ms

    def _follow_group(self, instance: Instance) -> None:
        """Let group callbacks happen; a record that comes with it is kept for the next read."""
        try:
            instance.unread.extend(each for each in instance.poll(1) if each.error() is None)
        except HttpProblem as problem:
            log.info("consumer %s/%s: %s", instance.group, instance.name, problem.message)

    async def _follow_pattern(self, instance: Instance) -> None:
        try:
            await instance.follow_pattern()
        except HttpProblem as problem:
            log.info("consumer %s/%s: %s", instance.group, instance.name, problem.message)

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def close(self) -> None:
        """End all."""
        if self._ticking is not None:
            self._ticking.cancel()
            self._ticking = None
        instances = [each for each in self._by_name.values() if each is not None]
        self._by_name.clear()
        closing = [asyncio.ensure_future(self._end(each, processed=False)) for each in instances]
        if closing or self._background:
            await asyncio.wait([*closing, *self._background], timeout=_CLOSE_SECONDS)
        self._pool.shutdown(wait=False, cancel_futures=True)
