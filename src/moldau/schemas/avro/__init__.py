"""The language Avro, as Avro's Java library understands it: that is what Confluent's registry checks schemas
with.

    tree.py         a schema as types with the names resolved
    parsing.py      text -> tree, with Java's leniency and Java's limits
    rules_new.py    what only schemas that are registered now must keep: defaults that fit, plain names
    printing.py     tree -> canonical text
    normalizing.py  tree -> the tree that equals for the same meaning
    comparing.py    can one read what another wrote
    tagging.py      tags of records and fields within a text
    parsed.py       the object that others see

Not here: values (serde, columns).
"""

from collections.abc import Mapping

from moldau.schemas.avro.parsed import AvroSchema
from moldau.schemas.schema import SchemaText


class AvroLanguage:
    """See `moldau.schemas.schema.Language`."""

    def parse(self, source: SchemaText, dependencies: Mapping[str, str]) -> AvroSchema:
        return AvroSchema(source, dependencies)


LANGUAGE = AvroLanguage()
