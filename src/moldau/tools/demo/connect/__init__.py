"""`moldau demo-connect` (`make demo-connect`): a PostgreSQL table into Parquet, while the table changes.

PostgreSQL ──▶ PostgresSource ──▶ topic (Avro) ──▶ transforms ──▶ FileSink ──▶ Parquet ──▶ notebook
    └──────────────────────────── what SQL says of the table ───────────────────────────▶ compare

database.py   a PostgreSQL of the demo's own, its table, and changes of it
pipeline.py   broker, registry, worker as processes; the two connectors
check.py      what the files say of the table, beside what the database says
notebook.py   a notebook that reads the files; its cells are run
command.py    all of it, in order
"""
