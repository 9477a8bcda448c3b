"""Debezium's transforms of change events.

envelope.py        what an event is: {before, after, source, op, ts_ms}
new_state.py       ExtractNewRecordState: the row as it is now
outbox.py          EventRouter: events that a program writes into an outbox table
logical_table.py   ByLogicalTableRouter: many tables into one topic
"""
