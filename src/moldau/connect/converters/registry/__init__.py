"""Confluent's AvroConverter, JsonSchemaConverter and ProtobufConverter, on moldau.schemas.

    settings.py     their settings
    base.py         payloads of one writer's schema at a time; registering; what a registry's errors become
    avro_schema.py  Connect's schemas <-> Avro's, with Confluent's properties (connect.name, connect.type ...)
    avro_columns.py columns in Avro's types <-> columns in Connect's
    converters.py   the three converters

Columns are decoded and encoded by moldau.schemas.columns; a record's schema is the writer's.
"""
