"""Decisions about the cluster: which topics exist, where their partitions live, who leads them, which
settings hold.

Deciding is pure: a function looks at an image and gives changes and an answer (`Decision`). Only three files
do anything: controller.py takes what the rest of the broker asks for, loop.py appends the changes to the
metadata store and publishes the new image, presence.py keeps this broker registered and the controller's seat
taken.

    decision.py       what a decision is made of
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
