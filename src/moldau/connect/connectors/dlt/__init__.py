"""Everything that dlt (dlthub.com) can read or write, as one source and one sink.

    running.py   a dlt source's resources, run with a state that is ours
    records.py   what a resource yields, as batches
    source.py    any dlt resource or verified source; its incremental state is the offset
    sink.py      any dlt destination; one load package a flush, positions in a table beside the data

Needs the extra `connect-dlt`, and what a source or destination of dlt needs besides (`dlt[duckdb]` and so
on).
"""
