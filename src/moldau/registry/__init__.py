"""`moldau registry`: a schema registry with Confluent's paths, errors and records.

service.py     the operations; results are bodies of HTTP responses
problems.py    what is refused, with Confluent's error codes
"""
