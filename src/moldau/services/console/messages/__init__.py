"""Records for people: where reading begins, how bytes are shown, which are shown.

positions.py     newest, oldest, an offset, a moment -> offsets of partitions (pure but for the lookups)
browsing.py      reads a page of records, within limits of records, bytes and time
tailing.py       new records as they come
decoding.py      bytes -> text, by a chosen format, a registry or a guess
expressions.py   filters in a small part of Python's expressions, without eval
masking.py       fields that are not shown
copy_as.py       the same record or reading in kcat, Python, Java, curl, Spark
exporting.py     JSON lines and CSV
"""
