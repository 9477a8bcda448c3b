"""Singer taps (singer.io): programs that write records as lines of JSON, as a source.

messages.py   a line -> a schema, a record, a state (pure)
source.py     runs a tap; records and the state after them are one transaction
"""
