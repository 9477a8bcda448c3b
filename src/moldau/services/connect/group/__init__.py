"""Which worker runs what: Kafka's group protocol of type "connect".

protocol.py    what members tell each other, in Kafka's bytes (eager, compatible, sessioned)
assignment.py  who gets what (pure): sticky, balanced, nothing given away before it was let go
member.py      a thread that is a member of the group
alone.py       the same for a worker without a group
"""
