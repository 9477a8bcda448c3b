"""Decisions about the cluster: which topics exist, where their partitions live, who leads them, which
settings hold.

Deciding is pure: a function looks at an image and gives changes and an answer (`Decision`). Only
controller.py does anything: it appends the changes to the metadata store and publishes the new image.

names.py        what a topic may be called       topics.py     creating and deleting topics
placement.py    replicas over brokers and racks  partitions.py adding partitions; changes of an in-sync set
election.py     choosing a leader                configs.py    changes of settings
internal.py     the topics that belong to the broker itself
"""
