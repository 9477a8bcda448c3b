"""Which type a name in a .proto file means.

A name is looked up from the inside to the outside: in the message where it stands, in those around it, in the
package, in the packages around that. `.a.b.C` is the name itself. Types of all references count, and those of
files that may be imported without one (known_imports.py), whether they are imported or not, as in Confluent's
registry.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from moldau.schemas.protobuf.elements import Enum, Extend, Field, File, Message
from moldau.schemas.protobuf.known_imports import known_file, known_names_of
from moldau.schemas.schema import Reference

Scope = tuple[str, ...]
"""The names of the messages around a place, the outermost first."""


@dataclass(frozen=True, eq=False, slots=True)
class TypeInfo:
    """A message or enum, and where it comes from."""

    full_name: str
    package: str
    element: Message | Enum
    reference: Reference | None
    """None: it is of the file itself, or of a file that is known without a reference."""
    local: bool

    @property
    def local_name(self) -> str:
        """Its name within its package."""
        return self.full_name[len(self.package) + 1 :] if self.package else self.full_name

    @property
    def map_types(self) -> tuple[str, str] | None:
        """Types of key and value if it is the entry of a map, as descriptors have it."""
        if not isinstance(self.element, Message) or not self.element.is_map_entry:
            return None
        key, value = self.element.field_named("key"), self.element.field_named("value")
        return (key.type, value.type) if key and value else None


@dataclass(slots=True)
class Types:
    """All types, and all fields of extensions, that a file may name."""

    package: str
    by_name: dict[str, TypeInfo] = field(default_factory=dict)
    extensions: dict[str, Field] = field(default_factory=dict)
    _known: set[str] = field(default_factory=set)

    def add(self, file: File, reference: Reference | None, local: bool) -> None:
        """Take the types of a file."""
        package = file.package or ""
        self._add_types(file.types, package, (), reference, local)
        self._add_extends(file.extends, package)

    def _add_types(
        self,
        types: Sequence[Message | Enum],
        package: str,
        scope: Scope,
        reference: Reference | None,
        local: bool,
    ) -> None:
        for element in types:
            inner = (*scope, element.name)
            full_name = ".".join((package, *inner) if package else inner)
            self.by_name[full_name] = TypeInfo(full_name, package, element, reference, local)
            if isinstance(element, Message):
                self._add_types(element.types, package, inner, reference, local)
                self._add_extends(element.extends, full_name)

    def _add_extends(self, extends: Sequence[Extend], prefix: str) -> None:
        for extend in extends:
            for each in extend.fields:
                self.extensions[f"{prefix}.{each.name}" if prefix else each.name] = each

    def find(self, name: str, scope: Scope, package: str | None = None) -> TypeInfo | None:
        """The type that `name` means in a scope; None if there is none."""
        found = self._resolve(self.by_name, name, scope, package)
        if found is None and self._add_known(name):
            found = self._resolve(self.by_name, name, scope, package)
        return self.by_name[found] if found is not None else None

    def extension(self, name: str, scope: Scope) -> str | None:
        """The full name of an extension's field; None if it is not known."""
        found = self._resolve(self.extensions, name, scope, None)
        if found is None and self._add_known(name):
            found = self._resolve(self.extensions, name, scope, None)
        return found

    def _resolve(
        self, known: Mapping[str, object], name: str, scope: Scope, package: str | None
    ) -> str | None:
        if name.startswith("."):
            return name[1:] if name[1:] in known else None
        outer = (self.package if package is None else package).split(".")
        prefix = [part for part in (*outer, *scope) if part]
        while prefix:
            full_name = ".".join((*prefix, name))
            if full_name in known:
                return full_name
            prefix.pop()
        return name if name in known else None

    def _add_known(self, name: str) -> bool:
        """Load the known files whose package the name, or the package of the file, leads to."""
        added = False
        for location in known_names_of(name.lstrip("."), self.package):
            if location not in self._known:
                self._known.add(location)
                known = _known_types(location)
                self.by_name.update(known.by_name)
                self.extensions.update(known.extensions)
                added = True
        return added


@lru_cache(maxsize=64)
def _known_types(location: str) -> Types:
    file = known_file(location)
    types = Types(file.package or "")
    types.add(file, None, False)
    return types


def types_of(file: File, references: Sequence[Reference], dependencies: Mapping[str, File]) -> Types:
    """Collect the types of a file and of those that it stands on."""
    types = Types(file.package or "")
    by_name = {each.name: each for each in references}
    for name, dependency in dependencies.items():
        types.add(dependency, by_name.get(name), False)
    types.add(file, None, True)
    return types
