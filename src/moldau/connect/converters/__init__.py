"""Converters that come with Moldau: bytes <-> columns, a run of records at a time.

json/            JsonConverter, with schemas in each record or without
primitive.py     String, ByteArray, Boolean, Short, Integer, Long, Float, Double
simple_header.py SimpleHeaderConverter; headers.py makes a header converter of any converter
registry/        Avro, JSON Schema and Protobuf by a schema registry
java_text.py     numbers and values as Java prints them
"""
