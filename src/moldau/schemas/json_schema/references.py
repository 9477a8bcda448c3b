"""What a $ref points at: a place in the text, a schema with this id or anchor, a referenced schema by its
name, a published schema of the drafts. Nothing else, and nothing is fetched: a file, an address on the net or
an unknown name is an error.

A name is resolved against the id of the schema that it stands in, as URIs are. The names of referenced
schemas are resolved against the id of the text, so that "#/definitions/x", "other.json" and
"other.json#/definitions/x" all work with and without ids.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import unquote, urldefrag, urljoin

from moldau.schemas.json_text import read
from moldau.schemas.schema import InvalidSchema

_NO_SCHEMAS_IN = frozenset({"enum", "const", "default", "examples"})
_PUBLISHED = ("http://json-schema.org/", "https://json-schema.org/")


class Place(NamedTuple):
    """A part of a document, and the URI that names in it are resolved against."""

    part: Any
    base: str


class Documents:
    """The text, the referenced schemas, and all that can be named in them."""

    def __init__(self, root: Any, dependencies: Mapping[str, str]) -> None:
        self._named: dict[str, Place] = {}
        """By URI; anchors behind '#'."""
        own = root.get("$id", root.get("id")) if isinstance(root, dict) else None
        self.base = urldefrag(own)[0] if isinstance(own, str) else ""
        for name, text in dependencies.items():
            try:
                document = read(text, number=_number)
            except InvalidSchema as error:
                raise InvalidSchema(f"in the reference {name}: {error}") from None
            uri = urldefrag(_joined(self.base, name))[0]
            self._add(document, uri)
            self._named.setdefault(name, self._named[uri])
        self._add(root, self.base)

    def _add(self, document: Any, uri: str) -> None:
        self._named[uri] = Place(document, uri)
        waiting = [Place(document, uri)]
        for part, base in waiting:
            if isinstance(part, list):
                waiting.extend(Place(each, base) for each in part if isinstance(each, (dict, list)))
            if not isinstance(part, dict):
                continue
            base = self._add_names(part, base)
            waiting.extend(
                Place(each, base)
                for name, each in part.items()
                if isinstance(each, (dict, list)) and name not in _NO_SCHEMAS_IN
            )

    def _add_names(self, part: dict[str, Any], base: str) -> str:
        base = base_within(part, base)
        own = part.get("$id", part.get("id"))
        if isinstance(own, str):
            self._named.setdefault(base, Place(part, base))
            fragment = urldefrag(own)[1]
            if fragment and not fragment.startswith("/"):  # drafts 4 to 7 write anchors so
                self._named.setdefault(f"{base}#{fragment}", Place(part, base))
        for keyword in ("$anchor", "$dynamicAnchor"):
            anchor = part.get(keyword)
            if isinstance(anchor, str):
                self._named.setdefault(f"{base}#{anchor}", Place(part, base))
        return base

    def find(self, reference: str, base: str) -> Place:
        """What a $ref that stands under `base` points at. InvalidSchema if that is nothing known."""
        uri, fragment = urldefrag(_joined(base, reference))
        place = self._document(uri, urldefrag(reference)[0])
        if place is None:
            raise InvalidSchema(
                f"$ref {reference!r} is nothing in the schema or among its references; nothing is fetched"
            )
        fragment = unquote(fragment)
        if not fragment:
            return place
        if not fragment.startswith("/"):
            found = self._named.get(f"{place.base}#{fragment}")
            if found is None:
                raise InvalidSchema(f"$ref {reference!r} points at an anchor that is nowhere")
            return found
        return _walk(place, fragment, reference)

    def _document(self, uri: str, written: str) -> Place | None:
        for name in (uri, written, written.removeprefix("./")):
            if name in self._named and (name or not uri):
                return self._named[name]
        if uri.startswith(_PUBLISHED):
            document = _published(uri)
            if document is not None:
                return Place(document, uri)
        return None


def base_within(part: dict[str, Any], base: str) -> str:
    """The URI that names in a part are resolved against: its own id, if it has one."""
    own = part.get("$id", part.get("id"))
    if not isinstance(own, str) or own.startswith("#"):
        return base
    return urldefrag(_joined(base, own))[0]


def _joined(base: str, name: str) -> str:
    if not name or name.startswith("#"):
        return base + name
    try:
        return urljoin(base, name)
    except ValueError:  # brackets that are no IPv6 address
        raise InvalidSchema(f"{name!r} is no URI") from None


def _walk(place: Place, pointer: str, reference: str) -> Place:
    part, base = place
    for step in pointer[1:].split("/"):
        step = step.replace("~1", "/").replace("~0", "~")
        if isinstance(part, dict) and step in part:
            part = part[step]
        elif isinstance(part, list) and step.isdecimal() and step.isascii() and int(step[:9]) < len(part):
            part = part[int(step[:9])]
        else:
            raise InvalidSchema(f"$ref {reference!r} points at nothing: there is no {step!r}")
        if isinstance(part, dict):
            base = base_within(part, base)
    return Place(part, base)


@lru_cache(maxsize=32)
def _published(uri: str) -> Any:
    """A schema of the drafts themselves, as the package jsonschema-specifications carries them."""
    try:
        from jsonschema_specifications import REGISTRY
    except ImportError:  # without the extra
        return None
    for name in (uri, f"{uri}#", uri.rstrip("/")):
        if name in REGISTRY:
            return json.loads(json.dumps(dict(REGISTRY[name].contents)))
    return None


def _number(text: str) -> Any:
    from decimal import Decimal

    return Decimal(text)
