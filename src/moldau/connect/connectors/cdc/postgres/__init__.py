"""PostgreSQL by logical replication.

settings.py      settings, Debezium's names
pgoutput.py      the bytes of the plugin pgoutput -> messages; pure
positions.py     where reading stands: LSN, and how far within a transaction; what is left out after a restart
types.py         types of columns -> schemas and values
catalog.py       what the database says of its tables and types
replication.py   the connection that changes come through; slots
transactions.py  messages -> changes of tables, with their positions; pure
snapshot.py      rows that were there before, as of the slot's beginning
rows.py          rows through COPY; columns.py: as columns of values
incremental.py   tables that are read again while changes flow; chunks.py: what it asks of the database,
                 visibility.py: which transactions a reading has seen
stream.py        all of it in turns
source.py        PostgresSource
"""
