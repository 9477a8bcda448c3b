"""Transforms and predicates that come with Moldau; Kafka's class names select them (`plugins.py`).

    chain.py        `transforms=a,b`: one transform after another, rows that fail named with their stage
    building.py     a chain from a connector's settings
    base.py         transforms of a key or a value
    cast.py  extract_field.py  flatten.py  hoist_field.py  insert_field.py  mask_field.py  replace_field.py
    set_schema_metadata.py  timestamp_converter.py  value_to_key.py  headers.py  routers.py  filter.py
                    Kafka's
    predicates.py   Kafka's
    confluent/      Drop, Filter, ExtractTopic, MessageTimestampRouter, TombstoneHandler, GzipDecompress
    debezium/       ExtractNewRecordState, EventRouter, ByLogicalTableRouter
    own.py          a function of one's own
    field_path.py   names of nested fields (KIP-821)    java_dates.py  patterns of SimpleDateFormat

What has a schema is transformed a column at a time; what has none, value by value.
"""
