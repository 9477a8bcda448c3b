"""One instance of a registry among others: its part of the topic, of the election, and of the writing.

    start: topic checked -> replayed (reads are answered) -> election joined -> a primary known (writes)

A write is decided and committed here if this instance is the primary; else NotPrimary says who is. While
nobody is, or the primary changes, it waits.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from threading import Lock
from typing import Any

from moldau.client.cluster import Cluster
from moldau.client.errors import ClientError
from moldau.client.options import parse_options
from moldau.services.registry.election.identity import Identity
from moldau.services.registry.election.member import ElectionMember
from moldau.services.registry.problems import Code, NotPrimary, RegistryProblem
from moldau.services.registry.settings import RegistrySettings
from moldau.services.registry.state.body import Body
from moldau.services.registry.state.state import State
from moldau.services.registry.topic.creation import prepare_topic
from moldau.services.registry.topic.reader import TopicReader
from moldau.services.registry.topic.rounds import Decision
from moldau.services.registry.topic.writer import Deposed, TopicWriter

log = logging.getLogger("moldau.registry.instance")
_WAIT_SECONDS = 0.05
_FETCH_WAIT_MS = 500
_MISS_SECONDS = 5.0


class Instance:
    """Keeps a state that is the topic's, and writes to it."""

    def __init__(
        self,
        settings: RegistrySettings,
        client: Mapping[str, str],
        identity: Identity,
        state: State,
        *,
        read_only: bool,
        session_timeout_ms: int,
    ) -> None:
        self._settings, self._client, self._identity, self._state = settings, dict(client), identity, state
        self._read_only, self._session_timeout_ms = read_only, session_timeout_ms
        self._timeout_seconds = settings.kafkastore_timeout_ms / 1000
        self.cluster_id = ""
        """The Kafka cluster's, once it is known."""
        self._is_replayed = False
        self._miss_lock, self._misses_begun = Lock(), 0
        self._reader: TopicReader | None = None
        self._writer: TopicWriter | None = None
        self._member: ElectionMember | None = None

    def start(self) -> None:
        """Create or check the topic, replay it, join the election. Takes long; RegistryProblem."""
        settings, topic = self._settings, self._settings.kafkastore_topic
        started = time.monotonic()
        init_seconds = settings.kafkastore_init_timeout_ms / 1000
        with self._connect(settings.kafkastore_init_timeout_ms) as cluster:
            replicas = settings.kafkastore_topic_replication_factor
            facts = prepare_topic(cluster, topic, replicas, create=not self._read_only)
        self.cluster_id = facts.cluster_id
        try:
            self._reader = TopicReader(self._connect, topic, self._state)
            self._reader.start()
            self._reader.wait_for(self._reader.end(), init_seconds)
        except ClientError as error:
            raise RegistryProblem(Code.STORE, f"The topic {topic} cannot be read: {error}") from error
        self._is_replayed = True
        log.info("the registry has read topic %s in %.2f s", topic, time.monotonic() - started)
        if self._read_only:
            return
        group = settings.schema_registry_group_id
        self._writer = TopicWriter(
            self._connect,
            topic,
            f"{group}-{topic}",
            self._state,
            self._reader,
            facts.message_bytes_max,
            self._deposed,
            settings.moldau_registry_ids_resume_from,
        )
        self._member = ElectionMember(
            self._connect, group, self._identity, self._elected, session_timeout_ms=self._session_timeout_ms
        )
        self._writer.start()
        self._member.start()

    def close(self) -> None:
        """Leave the election and close all connections. Takes up to a few seconds."""
        for part in (self._writer, self._member, self._reader):
            if part is not None:
                part.close()

    def _connect(self, timeout_ms: int | None = None) -> Cluster:
        timeout_ms = self._settings.kafkastore_timeout_ms if timeout_ms is None else timeout_ms
        given = {
            "client.id": f"schema-registry-{self._identity.host}-{self._identity.port}",
            "request.timeout.ms": str(min(timeout_ms, 30_000)),
            "default.api.timeout.ms": str(timeout_ms),
            "fetch.max.wait.ms": str(_FETCH_WAIT_MS),
            **self._client,
        }
        servers = ",".join(self._settings.kafkastore_bootstrap_servers)
        try:
            return Cluster(servers, parse_options(given))
        except ClientError as error:
            raise RegistryProblem(Code.STORE, f"The brokers cannot be reached: {error}") from error

    def _elected(self, is_primary: bool) -> None:
        assert self._writer is not None
        self._writer.elect(is_primary)

    def _deposed(self) -> None:
        assert self._member is not None
        self._member.join_again()

    @property
    def is_ready(self) -> bool:
        """Whether the topic is replayed (and is still read), and the first election is over."""
        if not self._is_replayed or self._reader is None or self._reader.failure is not None:
            return False
        return self._read_only or (self._member is not None and self._member.has_assignment)

    @property
    def is_primary(self) -> bool:
        """Whether this instance writes."""
        return self._writer is not None and self._writer.is_open

    @property
    def primary_url(self) -> str | None:
        """Where the primary is (http://host:port); None while there is none."""
        primary = None if self._member is None else self._member.primary
        return None if primary is None else primary.url

    def catch_up(self) -> None:
        """Wait until all that is in the topic now has been read. Takes long; RegistryProblem."""
        reader = self._replayed()
        reader.wait_for(reader.end(), self._timeout_seconds)

    def catch_up_after_miss(self) -> bool:
        """Whether it is worth looking again for what was not found: another instance may have written it a
        moment ago. Takes long; those who miss something at the same time wait for one catching up.
        """
        reader = self._reader
        if self.is_primary or not self._is_replayed or reader is None or not reader.is_following:
            return False
        begun = self._misses_begun
        with self._miss_lock:
            # Higher: one began after this call did, and has ended.
            if self._misses_begun == begun:
                self._misses_begun += 1
                try:
                    reader.wait_for(reader.end(), _MISS_SECONDS)
                except RegistryProblem as problem:
                    log.warning("what was not found was not looked for again: %s", problem)
                    return False
        return True

    def id_for(self, context: str, body: Body) -> int:
        """The id for a body, old or new; for decisions that `write` calls."""
        assert self._writer is not None
        return self._writer.id_for(context, body)

    def _replayed(self) -> TopicReader:
        if self._reader is None or not self._is_replayed:
            raise RegistryProblem(Code.STORE, "The registry has not read its topic yet")
        return self._reader

    def write(
        self, decide: Callable[[], Decision], keys: frozenset[str] | None, *, repeatable: bool = True
    ) -> Any:
        """Decide and commit here, or say who can. NotPrimary, RegistryProblem."""
        self._replayed()
        writer, member = self._writer, self._member
        if writer is None or member is None:
            raise RegistryProblem(Code.NOT_PERMITTED, "This registry is read-only")
        deadline = time.monotonic() + self._timeout_seconds
        while True:
            if member.is_primary:
                try:
                    return writer.run(decide, keys, self._timeout_seconds, repeatable=repeatable)
                except Deposed:
                    pass
            elif (url := self.primary_url) is not None and url != self._identity.url:
                raise NotPrimary(url)
            if time.monotonic() >= deadline:
                raise RegistryProblem(
                    Code.NO_PRIMARY, "The request failed since no primary is elected at the moment"
                )
            time.sleep(_WAIT_SECONDS)
