"""What workers know and remember, in Kafka's own records.

java_json.py   JSON as Kafka Connect's converter writes it, byte by byte
configs.py     connect-configs: connectors, tasks, target states, keys    (records -> state, pure)
statuses.py    connect-status: who runs what, and how it goes             (pure)
offsets.py     connect-offsets: where source connectors stand             (pure)
kafka_log.py   a compacted topic: read from its beginning on, written, read to its end
topics.py      makes the topics, or checks them
shared.py      the three topics of a distributed worker, as the herder uses them
alone.py       the same of a standalone worker: configurations in memory, offsets in a file
offset_file.py that file, in Kafka's format
"""
