"""Decisions about the cluster: which topics exist, where their partitions live, who leads them, which
settings hold.

Decisions are pure functions from an image to changes and an answer (`Decision`). Only three files have side
effects: controller.py is the API for the rest of the broker, loop.py appends the changes to the metadata
store and publishes the new image, presence.py registers this broker and stands for election as controller.

    decision.py       the types of a decision
    names.py          legal topic names
    topics.py         creating and deleting topics
    partitions.py     adding partitions, changing in-sync sets
    placement.py      replicas over brokers and racks
    assignments.py    replicas that a user chose
    reassignment.py   moving partitions
    in_sync.py        in-sync sets and leader election: one partition's rules
    membership.py     broker registrations, fencing, and what follows for partitions
    shutdown.py       a broker that stops hands over
    rebalancing.py    leadership back to the preferred replicas
    replica_losses.py replicas that lost records or their log
    brokers.py        removing brokers, raising the metadata level
    election.py       elections that an administrator asks for
    configs.py        changes of settings           config_rules.py  which settings are allowed
    adoption.py       topics that Kafka left in the data folder
    internal.py       the topics that belong to the broker itself
"""
