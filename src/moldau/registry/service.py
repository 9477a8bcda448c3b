"""The registry's operations: plain calls, whose results are the bodies of the HTTP responses.

    routes (routes/)  ->  RegistryService  ->  state (state/), records (topic.py)

Every method may be called from any thread. Results are what `json.dumps` takes, in Confluent's order of
fields; refusals are RegistryProblem with Confluent's code. Subjects are names with their context
(`:.ctx:orders`), already out of the path; the service takes aliases into account. A request is the body as
parsed: a dict, of which unknown fields are ignored.

Methods that may take long (parsing, comparing, writing to Kafka) say so: they belong on a worker thread. A
write on an instance that is not the primary raises NotPrimary with the primary's address; the HTTP layer
forwards the request as it came (forwarding.py), then calls `catch_up`, so that its next read sees the write.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Json = Any
"""What `json.dumps` takes."""


class RegistryService:
    """One instance of a registry."""

    # Life

    def start(self) -> None:
        """Create or check the topic, replay it, join the election. Takes long; RegistryProblem."""
        raise NotImplementedError

    def close(self) -> None:
        """Leave the election and close all connections. Takes up to a few seconds."""
        raise NotImplementedError

    @property
    def is_ready(self) -> bool:
        """Whether the topic is replayed and a primary is known."""
        raise NotImplementedError

    @property
    def is_primary(self) -> bool:
        """Whether this instance writes."""
        raise NotImplementedError

    @property
    def primary_url(self) -> str | None:
        """Where the primary is (http://host:port); None while there is none."""
        raise NotImplementedError

    def catch_up(self) -> None:
        """Wait until all that is in the topic now has been read. Takes long; RegistryProblem."""
        raise NotImplementedError

    # Reads; those with a `format` may parse, and take long then

    def types(self) -> list[str]:
        """GET /schemas/types."""
        raise NotImplementedError

    def cluster_id(self) -> dict[str, Json]:
        """GET /v1/metadata/id."""
        raise NotImplementedError

    def subjects(
        self,
        prefix: str = ":*:",
        *,
        deleted: bool = False,
        deleted_only: bool = False,
        offset: int = 0,
        limit: int = -1,
    ) -> list[str]:
        """GET /subjects: sorted; `limit` below 1 is the setting's default."""
        raise NotImplementedError

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
        raise NotImplementedError

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
        raise NotImplementedError

    def referenced_by(self, subject: str, version: str, *, offset: int = 0, limit: int = -1) -> list[int]:
        """GET /subjects/{s}/versions/{v}/referencedby: ids of schemas."""
        raise NotImplementedError

    def with_metadata(
        self, subject: str, properties: Mapping[str, str], *, format: str = "", deleted: bool = False
    ) -> dict[str, Json]:
        """GET /subjects/{s}/metadata: the newest version that has these properties."""
        raise NotImplementedError

    def schemas(
        self,
        prefix: str = ":*:",
        *,
        deleted: bool = False,
        latest_only: bool = False,
        aliases: bool = False,
        rule_type: str | None = None,
        offset: int = 0,
        limit: int = -1,
    ) -> list[dict[str, Json]]:
        """GET /schemas."""
        raise NotImplementedError

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
        raise NotImplementedError

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
        raise NotImplementedError

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
        raise NotImplementedError

    def schema_by_guid(self, guid: str, *, format: str = "") -> dict[str, Json]:
        """GET /schemas/guids/{guid}."""
        raise NotImplementedError

    def ids_of_guid(self, guid: str) -> list[dict[str, Json]]:
        """GET /schemas/guids/{guid}/ids: [{"context", "id"}]."""
        raise NotImplementedError

    def contexts(self, *, prefix: str = "", offset: int = 0, limit: int = -1) -> list[str]:
        """GET /contexts: "." is the default context."""
        raise NotImplementedError

    def config(self, subject: str | None = None, *, default_to_global: bool = False) -> dict[str, Json]:
        """GET /config[/{s}]; None is the global one."""
        raise NotImplementedError

    def mode(self, subject: str | None = None, *, default_to_global: bool = False) -> dict[str, Json]:
        """GET /mode[/{s}]."""
        raise NotImplementedError

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
        raise NotImplementedError

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
        raise NotImplementedError

    # Writes: take long; NotPrimary

    def register(
        self, subject: str, request: Mapping[str, Json], *, normalize: bool = False, format: str = ""
    ) -> dict[str, Json]:
        """POST /subjects/{s}/versions. A schema that is there already is found on every instance."""
        raise NotImplementedError

    def delete_version(self, subject: str, version: str, *, permanent: bool = False) -> int:
        """DELETE /subjects/{s}/versions/{v}: the version deleted."""
        raise NotImplementedError

    def delete_subject(self, subject: str, *, permanent: bool = False) -> list[int]:
        """DELETE /subjects/{s}: the versions deleted."""
        raise NotImplementedError

    def set_config(self, subject: str | None, request: Mapping[str, Json]) -> dict[str, Json]:
        """PUT /config[/{s}]: fields that are absent stay, those that are null are removed."""
        raise NotImplementedError

    def delete_config(self, subject: str | None) -> dict[str, Json]:
        """DELETE /config[/{s}]: what was set."""
        raise NotImplementedError

    def set_mode(
        self, subject: str | None, request: Mapping[str, Json], *, force: bool = False
    ) -> dict[str, Json]:
        """PUT /mode[/{s}]."""
        raise NotImplementedError

    def delete_mode(self, subject: str | None, *, recursive: bool = False) -> dict[str, Json]:
        """DELETE /mode[/{s}]: what was set; `recursive` (a context) also those of its subjects."""
        raise NotImplementedError

    def delete_context(self, context: str) -> None:
        """DELETE /contexts/{c}: CONTEXT_NOT_EMPTY while it has subjects."""
        raise NotImplementedError
