"""Databases by SQL: records into tables, exactly once, and tables into topics. Names and settings are those
of Confluent's JDBC connectors.

    urls.py            connection.url: jdbc: addresses and SQLAlchemy's -> an engine
    database.py        an open database: names, quoting, which errors pass and which are a row's
    sql_types.py       Connect's schemas -> types of columns; columns -> what a driver takes
    sink_settings.py   settings of the sink
    record_columns.py  a batch -> columns of a table, its key columns, its tombstones
    tables.py          what a table has; create and alter
    staging.py         what is written and not committed
    dialects/          how rows are inserted, merged and deleted: postgresql, mysql, sqlite, any other
    offsets.py         the table moldau_offsets: how far each topic partition is written
    sink.py            JdbcSink
    source*.py         JdbcSource: modes, queries, offsets
"""
