"""MySQL and MariaDB by the binary log.

    settings.py    settings, Debezium's names
    types.py       types of columns -> schemas and values
    tables.py      what records of a table look like, from the log's description and information_schema
    positions.py   file, position, and how far within a transaction; gtids.py: transactions by name
    following.py   the log from a position on
    incremental.py tables that are read again while changes flow; chunks.py: what it asks of the database
    source.py      MysqlSource, MariadbSource: snapshot, then the log

The log describes each table with every change (`binlog_row_metadata=FULL`: names, signs, keys), so a change
is read with the columns that it was made with, and no history of the schema has to be kept beside.
"""
