"""Administration of a Kafka cluster: what v3 (and v2's lists of topics and brokers) ask and change.

access.py has the threads with a connection each; every other file asks one kind of thing, as functions of a
connected client (`Cluster`) that return plain values and raise KafkaProblem. The requests are made by our own
client: librdkafka offers neither reassignments, nor settings of all brokers, nor all kinds of ACLs.
"""
