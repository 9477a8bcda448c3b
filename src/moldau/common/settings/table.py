"""A class whose attributes are rows becomes a frozen object with one typed attribute a setting.

    @table
    class TopicSettings:
        retention_ms: int = long(604_800_000, "How long ...", at_least(-1))

    TopicSettings(retention_ms=1000).retention_ms == 1000
    TopicSettings.ROWS["retention.ms"].documentation

This is a dataclass in use (frozen, slotted, keyword arguments, equality, hash), and type checkers see one. It
is not built by `dataclasses`, because that compiles a method with one line for every field: 11 ms for the
broker's 230 settings, of the 15 that start-up may spend here. The constructor does not check values, so that
tests may use sizes that no user would; text from outside goes through `parse_all`.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Self, TypeVar, dataclass_transform

from moldau.common.settings.rows import Check, Kind, Scope, Setting

Rule = tuple[Check, str]
Names = tuple[str, ...]
_MEMO_ENTRIES_MAX = 4096
_R, _B, _C = Scope.READ_ONLY, Scope.PER_BROKER, Scope.CLUSTER_WIDE


def _row(kind: Kind, default: Any, doc: str, rule: Rule | None, scope: Scope, syn: Names, eff: bool) -> Any:
    check, valid = rule if rule is not None else (None, "")
    return Setting(kind, default, doc, check, valid, scope, syn, eff)


def boolean(
    default: bool,
    doc: str,
    rule: Rule | None = None,
    *,
    scope: Scope = _R,
    synonyms: Names = (),
    effective: bool = True,
) -> Any:
    """A row that is true or false."""
    return _row(Kind.BOOLEAN, default, doc, rule, scope, synonyms, effective)


def integer(
    default: int | None,
    doc: str,
    rule: Rule | None = None,
    *,
    scope: Scope = _R,
    synonyms: Names = (),
    effective: bool = True,
) -> Any:
    """A row that is a whole number of 32 bits."""
    return _row(Kind.INT, default, doc, rule, scope, synonyms, effective)


def short(
    default: int,
    doc: str,
    rule: Rule | None = None,
    *,
    scope: Scope = _R,
    synonyms: Names = (),
    effective: bool = True,
) -> Any:
    """A row that is a whole number of 16 bits."""
    return _row(Kind.SHORT, default, doc, rule, scope, synonyms, effective)


def long(
    default: int | None,
    doc: str,
    rule: Rule | None = None,
    *,
    scope: Scope = _R,
    synonyms: Names = (),
    effective: bool = True,
) -> Any:
    """A row that is a whole number of 64 bits."""
    return _row(Kind.LONG, default, doc, rule, scope, synonyms, effective)


def double(
    default: float,
    doc: str,
    rule: Rule | None = None,
    *,
    scope: Scope = _R,
    synonyms: Names = (),
    effective: bool = True,
) -> Any:
    """A row that is a floating-point number."""
    return _row(Kind.DOUBLE, default, doc, rule, scope, synonyms, effective)


def text(
    default: str | None,
    doc: str,
    rule: Rule | None = None,
    *,
    scope: Scope = _R,
    synonyms: Names = (),
    effective: bool = True,
    kind: Kind = Kind.STRING,
) -> Any:
    """A row that is a string (or a class name, or a password: `kind`)."""
    return _row(kind, default, doc, rule, scope, synonyms, effective)


def listing(
    default: tuple[str, ...] | None,
    doc: str,
    rule: Rule | None = None,
    *,
    scope: Scope = _R,
    synonyms: Names = (),
    effective: bool = True,
) -> Any:
    """A row that is a list of strings, separated by commas."""
    return _row(Kind.LIST, default, doc, rule, scope, synonyms, effective)


class SettingsObject:
    """What every settings object can do. `memo` holds what was derived from the object, which never
    changes; `prefixed` the texts of settings that hold for one listener only, by full name (prefixed.py);
    `fill_in`, from name and value, what replaces `${file:...}` in later changes (None: no provider);
    `FROM_FILE` rows by attribute that stand in a file (without_effect.py)."""

    __slots__ = ("fill_in", "memo", "prefixed")
    memo: dict[Any, Any]
    prefixed: Mapping[str, str]
    fill_in: Callable[[str, str], str] | None
    FROM_FILE: ClassVar[Mapping[str, Setting]] = {}
    ROWS: ClassVar[Mapping[str, Setting]] = {}
    _ATTRIBUTES: ClassVar[Mapping[str, Setting]] = {}
    _DEFAULTS: ClassVar[tuple[tuple[str, Any], ...]] = ()

    def __init__(
        self,
        *,
        prefixed: Mapping[str, str] | None = None,
        fill_in: Callable[[str, str], str] | None = None,
        **values: Any,
    ) -> None:
        assign = object.__setattr__
        assign(self, "memo", {})
        assign(self, "fill_in", fill_in)
        assign(self, "prefixed", prefixed or {})
        for attribute, default in self._DEFAULTS:
            assign(self, attribute, default)
        for attribute, value in values.items():
            if attribute not in self._ATTRIBUTES:
                raise TypeError(f"{type(self).__name__} has no setting {attribute!r}")
            assign(self, attribute, value)

    def __setattr__(self, attribute: str, value: object) -> None:
        raise AttributeError(f"settings do not change; use replace({attribute}=...)")

    def __delattr__(self, attribute: str) -> None:
        raise AttributeError(f"settings do not change: cannot delete {attribute}")

    def replace(self, **changes: Any) -> Self:
        """A copy with these attributes changed."""
        values = {attribute: getattr(self, attribute) for attribute in self._ATTRIBUTES}
        return type(self)(**{"prefixed": self.prefixed, "fill_in": self.fill_in, **values, **changes})

    def remember(self, key: Any, value: Any) -> None:
        """Keep what was derived from this object in `memo`, which is emptied when it grows too long."""
        if len(self.memo) >= _MEMO_ENTRIES_MAX:
            self.memo.clear()
        self.memo[key] = value

    def get(self, name: str) -> Any:
        """The value of the setting of this name (as Kafka spells it)."""
        return getattr(self, self.ROWS[name].attribute)

    def get_or_none(self, name: str) -> Any:
        """As `get`; None if there is no such setting."""
        return self.get(name) if name in self.ROWS else None

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self.prefixed == other.prefixed and all(
            getattr(self, a) == getattr(other, a) for a in self._ATTRIBUTES
        )

    def __hash__(self) -> int:
        return hash(tuple(getattr(self, attribute) for attribute in self._ATTRIBUTES))

    def __repr__(self) -> str:
        """Only what differs from the defaults; passwords are hidden."""
        shown = (
            f"{a}={'[hidden]' if row.sensitive else repr(getattr(self, a))}"
            for a, row in self._ATTRIBUTES.items()
            if getattr(self, a) != row.default
        )
        return f"{type(self).__name__}({', '.join(shown)})"


T = TypeVar("T", bound=SettingsObject)


@dataclass_transform(
    kw_only_default=True,
    frozen_default=True,
    field_specifiers=(boolean, integer, short, long, double, text, listing),
)
def part(cls: type[T]) -> type[T]:
    """Mark a class of rows that a table inherits from."""
    return cls


@dataclass_transform(
    kw_only_default=True,
    frozen_default=True,
    field_specifiers=(boolean, integer, short, long, double, text, listing),
)
def table(cls: type[T]) -> type[T]:
    """Make the class of its own rows and those of its parts; properties and methods stay."""
    attributes: dict[str, Setting] = {}
    members: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        if base is object or base is SettingsObject:
            continue
        for attribute, value in vars(base).items():
            if isinstance(value, Setting):
                attributes[attribute] = value
            elif attribute == "FROM_FILE":
                attributes.update(value)
            elif attribute not in ("__dict__", "__weakref__", "__slots__", "__annotations__"):
                members[attribute] = value
    for attribute, row in attributes.items():
        row.attribute, row.name = attribute, attribute.replace("_", ".")
    members["__slots__"] = tuple(attributes)
    members["__qualname__"] = cls.__qualname__
    members["ROWS"] = {row.name: row for row in attributes.values()}
    members["_ATTRIBUTES"] = attributes
    members["_DEFAULTS"] = tuple((attribute, row.default) for attribute, row in attributes.items())
    members["__doc__"] = cls.__doc__
    members["__module__"] = cls.__module__
    return type(cls.__name__, (SettingsObject,), members)


def parse_all(cls: type[T], texts: Iterable[tuple[str, str]]) -> T:
    """An object from (name, text) pairs, all of them checked; SettingError names the first that is wrong."""
    rows = cls.ROWS
    return cls(**{rows[name].attribute: rows[name].parse(value) for name, value in texts})
