"""Confluent's transforms that are used most.

records.py          Drop, TombstoneHandler, GzipDecompress
routing.py          ExtractTopic, MessageTimestampRouter
filter.py           Filter by a condition
json_condition.py   such conditions: a part of JSONPath
"""
