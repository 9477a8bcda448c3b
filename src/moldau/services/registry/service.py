"""The registry's operations: plain calls, whose results are the bodies of the HTTP responses.

    routes (routes/)  ->  RegistryService  ->  operations/ on the state; writes: instance.py

Every method may be called from any thread. Results are what `json.dumps` takes, in Confluent's order of
fields; refusals are RegistryProblem with Confluent's code. Subjects are names with their context
(`:.ctx:orders`), already out of the path; the service takes aliases into account. A request is the body as
parsed: a dict, of which unknown fields are ignored.

Methods that may take long (parsing, comparing, writing to Kafka) say so: they belong on a worker thread. A
write on an instance that is not the primary raises NotPrimary with the primary's address; the HTTP layer
forwards the request as it came (forwarding.py), then calls `instance.catch_up`, so that its next read sees
the write.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moldau.schemas.effort import current_work, working
from moldau.services.registry.election.identity import Identity
from moldau.services.registry.election.member import SESSION_TIMEOUT_MS
from moldau.services.registry.instance import Instance
from moldau.services.registry.names import check_subject, normal_name
from moldau.services.registry.operations import (
    comparing,
    configuring,
    deleting,
    finding,
    listing,
    reading,
    registering,
    tagging,
)
from moldau.services.registry.operations.core import Core, page
from moldau.services.registry.operations.listing import Visible
from moldau.services.registry.operations.scope import resolve_alias
from moldau.services.registry.operations.views import schema_view
from moldau.services.registry.parsing import Parser
from moldau.services.registry.settings import RegistrySettings
from moldau.services.registry.state.body import Version
from moldau.services.registry.state.state import State
from moldau.services.registry.topic.rounds import Decision

Json = Any
"""What `json.dumps` takes."""
_TYPES = ["JSON", "PROTOBUF", "AVRO"]


class RegistryService:
    """One instance of a registry."""

    def __init__(
        self,
        settings: RegistrySettings,
        client: Mapping[str, str],
        identity: Identity,
        *,
        read_only: bool = False,
        session_timeout_ms: int = SESSION_TIMEOUT_MS,
    ) -> None:
        """`client` has the Kafka client's settings; `identity` is how other instances reach this one.

        A read-only instance creates nothing and joins no election: it needs the right to read the topic only.
        """
        self.settings = settings
        self.identity = identity
        self.state = State()
        self._core = Core(self.state, Parser(self.state, settings.schema_cache_size), settings)
        self.instance = Instance(
            settings,
            client,
            identity,
            self.state,
            read_only=read_only,
            session_timeout_ms=session_timeout_ms,
        )
        """Its part in the topic and in the election: start and close it there."""

    def _subject(self, subject: str) -> str:
        return resolve_alias(self._core, normal_name(subject))

    # Reads; those with a `format` may parse, and take long then

    def types(self) -> list[str]:
        """GET /schemas/types."""
        return list(_TYPES)

    def cluster_id(self) -> dict[str, Json]:
        """GET /v1/metadata/id."""
        return {
            "id": "",
            "scope": {
                "path": [],
                "clusters": {
                    "kafka-cluster": self.instance.cluster_id,
                    "schema-registry-cluster": self.settings.schema_registry_group_id,
                },
            },
        }

    def subjects(
        self,
        *prefixes: str,
        deleted: bool = False,
        deleted_only: bool = False,
        offset: int = 0,
        limit: int = -1,
        visible: Visible | None = None,
    ) -> list[str]:
        """GET /subjects: sorted, those that begin with one of `prefixes` (none: all). `limit` below 1 is the
        setting's default. `visible` says which may be listed.
        """
        return listing.list_subjects(
            self._core,
            prefixes or (listing.EVERYTHING,),
            deleted=deleted,
            deleted_only=deleted_only,
            offset=offset,
            limit=limit,
            visible=visible,
        )

    def versions(
        self,
        subject: str,
        *,
        deleted: bool = False,
        deleted_only: bool = False,
        deleted_as_negative: bool = False,
        offset: int = 0,
        limit: int = -1,
    ) -> list[int]:
        """GET /subjects/{s}/versions."""
        return listing.list_versions(
            self._core,
            self._subject(subject),
            deleted=deleted,
            deleted_only=deleted_only,
            as_negative=deleted_as_negative,
            offset=offset,
            limit=limit,
        )

    def version(
        self,
        subject: str,
        version: str,
        *,
        format: str = "",
        reference_format: str = "",
        deleted: bool = False,
    ) -> dict[str, Json]:
        """GET /subjects/{s}/versions/{v} (a number, "latest" or "-1"); …/schema is its "schema"."""
        found = reading.read_version(self._core, self._subject(subject), version, deleted=deleted)
        return schema_view(self._core, found, format, reference_format)

    def referenced_by(self, subject: str, version: str, *, offset: int = 0, limit: int = -1) -> list[int]:
        """GET /subjects/{s}/versions/{v}/referencedby: ids of schemas."""
        return reading.referenced_by(self._core, self._subject(subject), version, offset, limit)

    def with_metadata(
        self, subject: str, properties: Mapping[str, str], *, format: str = "", deleted: bool = False
    ) -> dict[str, Json]:
        """GET /subjects/{s}/metadata: the newest version that has these properties."""
        subject = self._subject(subject)
        return reading.read_with_metadata(self._core, subject, properties, format, deleted=deleted)

    def schemas(
        self,
        *prefixes: str,
        deleted: bool = False,
        latest_only: bool = False,
        aliases: bool = False,
        rule_type: str | None = None,
        offset: int = 0,
        limit: int = -1,
        visible: Visible | None = None,
    ) -> list[dict[str, Json]]:
        """GET /schemas: those of `subjects` with these prefixes."""
        return listing.list_schemas(
            self._core,
            prefixes or (listing.EVERYTHING,),
            deleted=deleted,
            latest_only=latest_only,
            aliases=aliases,
            rule_type=rule_type,
            offset=offset,
            limit=limit,
            visible=visible,
        )

    def schema_by_id(
        self,
        schema_id: int,
        subject: str | None = None,
        *,
        format: str = "",
        reference_format: str = "",
        fetch_max_id: bool = False,
    ) -> dict[str, Json]:
        """GET /schemas/ids/{id}; …/schema is its "schema"."""
        subject = None if subject is None else self._subject(subject)
        return reading.read_id(
            self._core, schema_id, subject, format, reference_format, with_max=fetch_max_id
        )

    def has_id(self, schema_id: int, subject: str | None = None) -> bool:
        """Whether `schema_by_id` without a format answers at once: the subject itself has the id."""
        return reading.has_id(self._core, schema_id, None if subject is None else self._subject(subject))

    def subjects_of_id(
        self,
        schema_id: int,
        subject: str | None = None,
        *,
        deleted: bool = False,
        offset: int = 0,
        limit: int = -1,
    ) -> list[str]:
        """GET /schemas/ids/{id}/subjects."""
        places = self._places(schema_id, subject, deleted, offset, limit)
        return [each.subject for each in places]

    def versions_of_id(
        self,
        schema_id: int,
        subject: str | None = None,
        *,
        deleted: bool = False,
        offset: int = 0,
        limit: int = -1,
    ) -> list[dict[str, Json]]:
        """GET /schemas/ids/{id}/versions: [{"subject", "version"}]."""
        places = self._places(schema_id, subject, deleted, offset, limit)
        return [{"subject": each.subject, "version": each.version} for each in places]

    def schema_by_guid(self, guid: str, *, format: str = "") -> dict[str, Json]:
        """GET /schemas/guids/{guid}."""
        return reading.read_guid(self._core, guid, format)

    def ids_of_guid(self, guid: str) -> list[dict[str, Json]]:
        """GET /schemas/guids/{guid}/ids: [{"context", "id"}]."""
        return reading.ids_of_guid(self._core, guid)

    def contexts(
        self, *, prefix: str = "", offset: int = 0, limit: int = -1, visible: Visible | None = None
    ) -> list[str]:
        """GET /contexts: "." is the default context."""
        return listing.list_contexts(self._core, prefix, offset, limit, visible)

    def config(self, subject: str | None = None, *, default_to_global: bool = False) -> dict[str, Json]:
        """GET /config[/{s}]; None is the global one."""
        return configuring.read_config(
            self._core, normal_name(subject or ""), default_to_global=default_to_global
        )

    def mode(self, subject: str | None = None, *, default_to_global: bool = False) -> dict[str, Json]:
        """GET /mode[/{s}]."""
        return configuring.read_mode(
            self._core, normal_name(subject or ""), default_to_global=default_to_global
        )

    # Take long: they parse and compare

    def look_up(
        self,
        subject: str,
        request: Mapping[str, Json],
        *,
        normalize: bool = False,
        format: str = "",
        deleted: bool = False,
    ) -> dict[str, Json]:
        """POST /subjects/{s}: the version that has this schema."""
        subject = self._subject(subject)
        return finding.look_up(
            self._core, subject, request, normalize=normalize, wanted=format, deleted=deleted
        )

    def compatibility(
        self,
        subject: str,
        version: str | None,
        request: Mapping[str, Json],
        *,
        normalize: bool = False,
        verbose: bool = False,
    ) -> dict[str, Json]:
        """POST /compatibility/subjects/{s}/versions[/{v}]: {"is_compatible", "messages" if verbose}.

        `version` None: against all versions that the level names.
        """
        return comparing.compatibility(
            self._core, self._subject(subject), version, request, normalize=normalize, verbose=verbose
        )

    # Writes: take long; NotPrimary

    def check_registration(
        self, subject: str, request: Mapping[str, Json], *, normalize: bool = False
    ) -> None:
        """What `register` parses and compares, on the primary; the caches have it then. RegistryProblem."""
        if not self.instance.is_primary:
            return
        core, subject = self._core, check_subject(self._subject(subject))
        there = registering.registered_already(core, subject, request, normalize=normalize, wanted="")
        if there is None:
            registering.decide_registration(
                core, subject, request, lambda context, body: 0, normalize=normalize, wanted=""
            )

    def register(
        self, subject: str, request: Mapping[str, Json], *, normalize: bool = False, format: str = ""
    ) -> dict[str, Json]:
        """POST /subjects/{s}/versions. A schema that is there already is found on every instance."""
        core, subject = self._core, check_subject(self._subject(subject))
        there = registering.registered_already(core, subject, request, normalize=normalize, wanted=format)
        if there is not None:
            return there

        work = current_work()

        def decide(id_for: registering.IdFor) -> Decision:
            with working(work):  # also in the writer's thread
                return registering.decide_registration(
                    core, subject, request, id_for, normalize=normalize, wanted=format
                )

        if self.instance.is_primary:
            # Refused here, or parsed and compared for the writer's thread, which finds it in the cache.
            decide(lambda context, body: 0)

        answer: dict[str, Json] = self.instance.write(
            lambda: decide(self.instance.id_for),
            registering.depends_on(subject, request),
            repeatable=registering.is_repeatable(request),
        )
        return answer

    def change_tags(self, subject: str, version: str, request: Mapping[str, Json]) -> dict[str, Json]:
        """POST /subjects/{s}/versions/{v}/tags: the version as the next one, with other tags in its text."""
        core, subject = self._core, check_subject(self._subject(subject))

        work = current_work()

        def decide(id_for: registering.IdFor) -> Decision:
            with working(work):
                raw = tagging.tagging_request(core, subject, version, request)
                return registering.decide_registration(core, subject, raw, id_for, normalize=False, wanted="")

        if self.instance.is_primary:
            decide(lambda context, body: 0)
        answer: dict[str, Json] = self.instance.write(
            lambda: decide(self.instance.id_for), frozenset((subject,)), repeatable=False
        )
        return answer

    def delete_version(self, subject: str, version: str, *, permanent: bool = False) -> int:
        """DELETE /subjects/{s}/versions/{v}: the version deleted."""
        core, subject = self._core, self._subject(subject)
        answer: int = self.instance.write(
            lambda: deleting.decide_version_deletion(core, subject, version, permanent=permanent),
            None,
            repeatable=False,
        )
        return answer

    def delete_subject(self, subject: str, *, permanent: bool = False) -> list[int]:
        """DELETE /subjects/{s}: the versions deleted."""
        core, subject = self._core, self._subject(subject)
        answer: list[int] = self.instance.write(
            lambda: deleting.decide_subject_deletion(core, subject, permanent=permanent),
            None,
            repeatable=False,
        )
        return answer

    def set_config(self, subject: str | None, request: Mapping[str, Json]) -> dict[str, Json]:
        """PUT /config[/{s}]: fields that are absent stay, those that are null are removed."""
        core, place = self._core, self._place(subject)
        answer: dict[str, Json] = self.instance.write(
            lambda: configuring.decide_config(core, place, request), None
        )
        return answer

    def delete_config(self, subject: str | None) -> dict[str, Json]:
        """DELETE /config[/{s}]: what was set."""
        core, place = self._core, self._place(subject)
        answer: dict[str, Json] = self.instance.write(
            lambda: configuring.decide_config_deletion(core, place), None, repeatable=False
        )
        return answer

    def set_mode(
        self, subject: str | None, request: Mapping[str, Json], *, force: bool = False
    ) -> dict[str, Json]:
        """PUT /mode[/{s}]."""
        core, place = self._core, self._place(subject)
        answer: dict[str, Json] = self.instance.write(
            lambda: configuring.decide_mode(core, place, request, force=force), None
        )
        return answer

    def delete_mode(self, subject: str | None, *, recursive: bool = False) -> dict[str, Json]:
        """DELETE /mode[/{s}]: what was set; `recursive` (a context) also those of its subjects."""
        core, place = self._core, self._place(subject)
        answer: dict[str, Json] = self.instance.write(
            lambda: configuring.decide_mode_deletion(core, place, recursive=recursive), None, repeatable=False
        )
        return answer

    def delete_context(self, context: str) -> None:
        """DELETE /contexts/{c}: CONTEXT_NOT_EMPTY while it has subjects."""
        core = self._core
        self.instance.write(lambda: deleting.decide_context_deletion(core, context), None, repeatable=False)

    def _places(
        self, schema_id: int, subject: str | None, deleted: bool, offset: int, limit: int
    ) -> list[Version]:
        subject = None if subject is None else self._subject(subject)
        places = reading.places_of_id(self._core, schema_id, subject, deleted=deleted)
        settings = self.settings
        return page(
            places, offset, limit, settings.subject_search_default_limit, settings.subject_search_max_limit
        )

    @staticmethod
    def _place(subject: str | None) -> str:
        """The name under which settings are kept: the default context as a whole is what is global."""
        return "" if subject is None else check_subject(subject, is_of_settings=True)
