"""Sinks into lake tables: rows and the offset after them in one commit of the table's own log.

    table_rows.py     a batch as the columns of a table, fitted to those that the table has
    staging.py        what is written and not committed yet: rows by table, and how far they go by partition
    positions.py      which offsets a table has, and what to leave out of a run that comes again
    delta.py          Delta: transaction identifiers (`txn`) in its log             needs deltalake
    iceberg.py        Iceberg: properties, set in the commit that adds the rows     needs pyiceberg

A table remembers by topic partition *as it was read*, so that transforms may send one topic to several
tables.
"""
