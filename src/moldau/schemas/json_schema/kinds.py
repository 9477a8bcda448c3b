"""The kinds of differences between two JSON Schemas, by Confluent's names: the compatible ones, and the
sentences about the others (Confluent's, which programs search for).

Compatible means: a value that the earlier schema allows, the later one allows too; or would, if readers
filled in the defaults that it gives.
"""

from __future__ import annotations

from moldau.schemas.schema import Difference


def _each(names: str, *ends: str) -> frozenset[str]:
    return frozenset(f"{name}_{end}" for name in names.split() for end in ends)


_UPPER_LIMITS = "MAX_LENGTH MAXIMUM EXCLUSIVE_MAXIMUM MAX_PROPERTIES MAX_ITEMS MAX_CONTAINS"
_LOWER_LIMITS = "MIN_LENGTH MINIMUM EXCLUSIVE_MINIMUM MIN_PROPERTIES MIN_ITEMS MIN_CONTAINS"
_RESTS = "ADDITIONAL_PROPERTIES ADDITIONAL_ITEMS UNEVALUATED_PROPERTIES UNEVALUATED_ITEMS"
_CONTENT = "PROPERTY ITEM"

COMPATIBLE: frozenset[str] = frozenset().union(
    _each("ID TITLE DESCRIPTION DEFAULT", "CHANGED"),
    {"SCHEMA_REMOVED", "TYPE_EXTENDED"},
    _each(_UPPER_LIMITS, "INCREASED", "REMOVED"),
    _each(_LOWER_LIMITS, "DECREASED", "REMOVED"),
    {"PATTERN_REMOVED", "MULTIPLE_OF_REDUCED", "MULTIPLE_OF_REMOVED", "UNIQUE_ITEMS_REMOVED"},
    {"REQUIRED_ATTRIBUTE_REMOVED", "REQUIRED_ATTRIBUTE_WITH_DEFAULT_ADDED"},
    {"DEPENDENCY_ARRAY_NARROWED", "DEPENDENCY_ARRAY_REMOVED", "DEPENDENCY_SCHEMA_REMOVED"},
    _each(_RESTS, "ADDED", "EXTENDED"),
    _each(
        _CONTENT,
        "WITH_EMPTY_SCHEMA_ADDED_TO_OPEN_CONTENT_MODEL",
        "WITH_FALSE_REMOVED_FROM_CLOSED_CONTENT_MODEL",
        "REMOVED_FROM_OPEN_CONTENT_MODEL",
        "ADDED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
        "REMOVED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
    ),
    {
        "OPTIONAL_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL",
        "REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_UNOPEN_CONTENT_MODEL",
        "ITEM_ADDED_TO_CLOSED_CONTENT_MODEL",
    },
    {"ENUM_ARRAY_EXTENDED", "COMBINED_TYPE_EXTENDED", "PRODUCT_TYPE_NARROWED"},
    {"SUM_TYPE_EXTENDED", "NOT_TYPE_NARROWED"},
)
"""Compatible with compatibilityPolicy STRICT, the default."""

LENIENT: frozenset[str] = COMPATIBLE.union(
    _each("ADDITIONAL_PROPERTIES UNEVALUATED_PROPERTIES", "NARROWED", "REMOVED"),
    {
        "OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL",
        "REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_OPEN_CONTENT_MODEL",
        "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
        "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
    },
)
"""Compatible with compatibilityPolicy LENIENT: properties come and go, though their values may clash."""

_READER, _WRITER = "the {reader} schema", "the {writer} schema"
_BY_SENTENCE: dict[str, frozenset[str]] = {
    f"The keyword at path '{{path}}' in {_READER} is not present in {_WRITER}": frozenset().union(
        _each(f"{_UPPER_LIMITS} {_LOWER_LIMITS} MULTIPLE_OF PATTERN UNIQUE_ITEMS", "ADDED"),
        _each("REQUIRED_ATTRIBUTE DEPENDENCY_ARRAY DEPENDENCY_SCHEMA", "ADDED"),
        _each(_RESTS, "REMOVED"),
    ),
    f"The value at path '{{path}}' in {_READER} is more than its value in {_WRITER}": frozenset(
        {"MULTIPLE_OF_EXPANDED"}
    ).union(_each(_LOWER_LIMITS, "INCREASED")),
    f"The value at path '{{path}}' in {_READER} is less than its value in {_WRITER}": _each(
        _UPPER_LIMITS, "DECREASED"
    ),
    "The value at path '{path}' is different between the {reader} and {writer} schema": _each(
        "PATTERN MULTIPLE_OF DEPENDENCY_ARRAY", "CHANGED"
    ),
    f"An array or combined type at path '{{path}}' has fewer elements in {_READER} than {_WRITER}": _each(
        f"{_RESTS} ENUM_ARRAY SUM_TYPE", "NARROWED"
    ),
    f"An array or combined type at path '{{path}}' has more elements in {_READER} than {_WRITER}": _each(
        "DEPENDENCY_ARRAY PRODUCT_TYPE NOT_TYPE", "EXTENDED"
    ),
    f"A type at path '{{path}}' is different between {_READER} and {_WRITER}": frozenset(
        {"TYPE_NARROWED"}
    ).union(_each("TYPE COMBINED_TYPE COMBINED_TYPE_SUBSCHEMAS ENUM_ARRAY", "CHANGED")),
    "The {reader} schema has an open content model and has a property or item at path '{path}' which is "
    f"missing in {_WRITER}": _each(
        "REQUIRED_PROPERTY REQUIRED_PROPERTY_WITH_DEFAULT OPTIONAL_PROPERTY ITEM",
        "ADDED_TO_OPEN_CONTENT_MODEL",
    ),
    "The {reader} schema has an unopen content model and has a required property at path '{path}' which is "
    f"missing in {_WRITER}": frozenset({"REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL"}),
    "The {reader} schema has a closed content model and is missing a property or item present at path "
    f"'{{path}}' in {_WRITER}": _each(_CONTENT, "REMOVED_FROM_CLOSED_CONTENT_MODEL"),
    f"A property or item is missing in {_READER} but present at path '{{path}}' in {_WRITER} and is not "
    "covered by its partially open content model": _each(
        _CONTENT, "REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"
    ),
    f"The {{reader}} schema has a property or item at path '{{path}}' which is missing in {_WRITER} and is "
    "not covered by its partially open content model": _each(
        _CONTENT, "ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"
    ),
    # Confluent's registry has no sentence here.
    f"A schema at path '{{path}}' in {_READER} is not present in {_WRITER}": frozenset({"SCHEMA_ADDED"}),
}
_SENTENCES = {kind: sentence for sentence, kinds in _BY_SENTENCE.items() for kind in kinds}
INCOMPATIBLE: frozenset[str] = frozenset(_SENTENCES)
"""Each has a sentence."""


STEPS_MAX = 1_000
"""Of a place: of longer ones, the last steps are told."""


def difference(kind: str, path: tuple[str, ...]) -> Difference:
    """A difference at a place; compatible ones have no sentence."""
    if len(path) > STEPS_MAX:
        path = ("...", *path[-STEPS_MAX:])
    location = "#/" + "/".join(path)
    sentence = _SENTENCES.get(kind, "")
    return Difference(
        kind, location, sentence.replace("{{", "{").replace("}}", "}").replace("{path}", location)
    )
