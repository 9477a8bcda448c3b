"""Schemas of records: Avro, JSON Schema and Protobuf, their differences, and values written with them.

    schema.py          what a schema is, in any of the three languages; what a language offers
    languages.py       parse(): a schema of any language
    compatibility.py   levels: which differences count, against which versions
    wire.py            a schema's id before a payload, or in a header
    subjects.py        under which subject a topic's schema is registered
    registry_client.py schemas of a registry over HTTP, cached
    serde/             one value as JSON and as bytes
    json_text.py       JSON as Confluent's registry reads and writes it
    tags.py            tags of records and fields, changed within a schema
    recent.py          keeps what schemas were parsed into, for a while
    avro/  json_schema/  protobuf/     one language each: parse, print, normalise, compare
    columns/           records <-> Arrow columns, for pipelines and Spark

Knows no broker and no HTTP server: the registry, the REST proxy, the commands and Spark stand on it.
"""
