"""`moldau registry`: a schema registry with Confluent's paths, errors and records.

app.py         the HTTP application          routes/       its paths
service.py     the operations; results are bodies of HTTP responses
operations/    what each of them does, and decides to write
instance.py    one instance among others: topic, election, writing
parsing.py     schemas parsed and compared, cached
state/         what the topic's records add up to
topic/         the topic: read by one thread, written in transactions by another
election/      which instance writes
forwarding.py  a write that came to another instance
problems.py    what is refused, with Confluent's error codes
"""
