"""Kafka's JsonConverter.

    converter.py      the converter: settings, runs of one schema
    schema_json.py    Connect's schemas as JSON, in the field order of Kafka's
    reading.py        JSON values of one schema -> a column
    documents.py      payloads -> JSON values, and what is no JSON
    writing.py        a column -> JSON, field by field for all rows at once
    schemaless.py     values without a schema -> JSON

Written bytes equal Kafka's. Reading refuses what Kafka changes silently: a text in a field of numbers (Kafka:
0), 300 in an INT8 (44), 1.5 in an INT32 (1), more after the value. Whole numbers without a schema keep all
their digits (Kafka: 64 bits). Empty bytes are null without schemas. `{"schema": ..., "payload": null}` is a
tombstone, and a null row is written as one.
"""
