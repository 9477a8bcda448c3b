"""A small blocking Kafka client: reads a partition's records as Arrow columns, and (for Spark's sink)
produces into a transaction that spans processes. Other libraries offer neither.

    errors.py      the errors, as messages for the user
    options.py     the client settings we support, under the names of Java's client and librdkafka
    connection.py  one socket to one broker
    cluster.py     metadata, request routing, retries
    offsets.py     offsets by time, and committed offsets
    fetcher.py     the batches of a range of a partition
    admin/         what a cluster is asked for by commands and services: topics, groups, rights ...
    arrow.py       those batches as Arrow record batches; _columns.c (or its twin columns.py) decodes them

It works with any Kafka broker, and imports nothing of our broker but the codec. Not here: consumer groups,
and a producer with batching; confluent-kafka has them.
"""
