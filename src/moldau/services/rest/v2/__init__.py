"""Version 2 of Confluent's REST proxy: topics, producing, consumer instances, brokers.

routes.py      all paths, in one table; service.py: what they need
media_types.py which embedded format a request means
fields.py      bodies of requests, checked
errors.py      the error codes
metadata.py    topics, partitions, offsets, brokers
produce.py     records of a request -> outcomes
consumers.py   the requests for consumer instances
instances.py   all consumer instances and their end; instance.py: one; reading.py: its records
"""
