"""Our own small blocking client, for what no library offers: a partition's records as Arrow columns, and (for
Spark's sink) producing into a transaction that another process owns.

    errors.py      what can go wrong, as sentences
    options.py     the client settings we honour, under the names that Java's client and librdkafka use
    connection.py  one socket to one broker
    cluster.py     finding the right broker, and trying again
    offsets.py     positions: by time, and those that groups have committed
    fetcher.py     the batches of a range of a partition
    arrow.py       those batches as Arrow record batches; _columns.c (or its twin columns.py) decodes them

It speaks to any broker of Kafka's protocol, like anybody's program, and imports nothing of our broker but the
codec. Not here: consumer groups, and a producer with batching; confluent-kafka has them.
"""
