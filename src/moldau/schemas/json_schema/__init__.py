"""The language JSON Schema (drafts 4, 6, 7, 2019-09 and 2020-12), as Confluent's registry understands it.

    nodes.py        a schema as nodes: one kind of node for what a part says
    loading.py      text -> nodes; refuses keywords of the wrong type
    references.py   what $ref points at: in the text, in referenced schemas, in the drafts' own schemas
    kinds.py        the kinds of differences: which are compatible, what is said about the others
    comparing.py    can values that one allows be read with another; recursion, limits of work
    changes.py      what the parts of a comparison exchange
    parts.py        the differences of two nodes of one kind (objects.py: of objects)
    matching.py     which alternatives of one union another's may stand for
    tagging.py      tags of objects and properties within a text
    parsed.py       the object that others see

Nothing is fetched, whatever a text points at, and no pattern is run on data. Not here: values (serde,
columns).
"""

from collections.abc import Mapping

from moldau.schemas.json_schema.parsed import JsonSchema
from moldau.schemas.schema import SchemaText


class JsonSchemaLanguage:
    """See `moldau.schemas.schema.Language`."""

    def parse(self, source: SchemaText, dependencies: Mapping[str, str]) -> JsonSchema:
        return JsonSchema(source, dependencies)


LANGUAGE = JsonSchemaLanguage()
