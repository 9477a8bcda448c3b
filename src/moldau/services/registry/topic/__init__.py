"""The topic `_schemas`: created and checked, read into the state, written in transactions.

creation.py   the topic as it must be
reader.py     a thread that replays it and follows its end
writer.py     a thread that commits what operations decide, several at a time
rounds.py     which operations may be committed together
"""
