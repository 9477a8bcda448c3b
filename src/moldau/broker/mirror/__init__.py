"""Mirrors topics of other clusters, at the same offsets (docs/decisions/mirror.md).

machine.py    one mirrored partition, without input or output
outputs.py    what it asks for
source.py     the other cluster: its brokers, topics and leaders, over connections of this link
puller.py     what this broker pulls over one link
upkeep.py     which topics a link mirrors, at the elected controller
groups.py     committed offsets of groups
acls.py       rights on the topics
ending.py     the end of a partition that is failed over
mirroring.py  all links of this broker, in step with the metadata
"""
