"""The registry's state: the result of replaying the topic `_schemas`.

records.py   keys and values as Confluent's registry writes them
body.py      a schema with its references, metadata and rules; its guid
document.py  metadata and rule sets: checked, ordered, merged
highest_ids.py  which ids were given, of schemas that are deleted for good, too
state.py     replay, and the questions that operations ask
"""
