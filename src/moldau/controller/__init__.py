"""Decisions about the cluster: which topics exist, where their partitions live, who leads them, which
settings hold.

Deciding is pure: a function looks at an image and gives changes and an answer (`Decision`). Only
controller.py does anything: it appends the changes to the metadata store and publishes the new image.

    decision.py       what a decision is made of    controller.py    the loop that carries decisions out
    names.py          what a topic may be called
    topics.py         creating and deleting topics
    partitions.py     adding partitions, changing in-sync sets
    placement.py      replicas over brokers and racks
    assignments.py    replicas that a user chose
    reassignment.py   moving partitions
    in_sync.py        who is in sync and who may lead: one partition's rules
    membership.py     brokers that came and went
    election.py       elections that an administrator asks for
    configs.py        changes of settings           config_rules.py  which settings are allowed
    adoption.py       topics that Kafka left in the data folder
    internal.py       the topics that belong to the broker itself
"""
