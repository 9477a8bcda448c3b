"""Consumer groups of both protocols and their committed offsets, as state machines without input or output.

service.py  shard.py           one method an API; the machine of one partition of `__consumer_offsets`
classic/ consumer/ offsets/    each with its state, its records and its requests
migration/                     groups that change their protocol in use, classic members of consumer groups
assignors/                     a target assignment from members and topics
"""
