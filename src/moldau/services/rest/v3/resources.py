"""What resources of v3 have in common: kind, links and resource names (CRNs).

{"kind": "KafkaTopic", "metadata": {"self": URL, "resource_name": "crn:///kafka=ID/topic=orders"}, ...}
{"kind": "KafkaTopicList", "metadata": {"self": URL, "next": null}, "data": [...]}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode


class Links:
    """Builds URLs as the client reaches this proxy, and resource names."""

    def __init__(self, base_url: str, authority: str = "") -> None:
        """`base_url` without a slash at its end; `authority`: confluent.resource.name.authority."""
        self._base = base_url
        self._authority = authority

    def url(self, *parts: str | int, query: Mapping[str, str] | None = None) -> str:
        """The URL of a resource, from the parts of its path after /v3."""
        path = "/".join(quote(str(part), safe="") if part != "-" else "-" for part in ("v3", *parts))
        return f"{self._base}/{path}" + (f"?{urlencode(query)}" if query is not None else "")

    def related(self, *parts: str | int) -> dict[str, str]:
        """A relationship to another resource."""
        return {"related": self.url(*parts)}

    def crn(self, *parts: str | int) -> str:
        """A resource name from names and values in turn; a name at the end has no value."""
        texts = [quote(str(part), safe="") for part in parts]
        pairs = ["=".join(texts[at : at + 2]) for at in range(0, len(texts), 2)]
        return f"crn://{self._authority}/" + "/".join(pairs)


def resource(
    kind: str, self_url: str, resource_name: str | None, fields: Mapping[str, Any]
) -> dict[str, Any]:
    """A resource; without a name (ACLs) its metadata has none."""
    metadata: dict[str, Any] = {"self": self_url}
    if resource_name is not None:
        metadata["resource_name"] = resource_name
    return {"kind": kind, "metadata": metadata, **fields}


def collection(kind: str, self_url: str, data: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """All resources of a kind; there are no pages."""
    return {"kind": kind, "metadata": {"self": self_url, "next": None}, "data": data}
