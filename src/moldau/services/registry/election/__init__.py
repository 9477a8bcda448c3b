"""Which instance writes: elected by Kafka's group protocol, as Confluent's registry does (type "sr").

identity.py   who a member is, and what the group's leader tells everyone
choice.py     which member becomes the primary
member.py     a thread that is a member of the group
"""
