"""Change data capture: what is committed in a database becomes records, in Debezium's envelope.

envelope.py   before, after, source, op: schemas and columns of changes, keys, tombstones
choice.py     which tables and columns: include and exclude lists
naming.py     names of topics and schemas
postgres/     PostgreSQL by logical replication (pgoutput)
"""
