"""A sink into OpenSearch and Elasticsearch, by their bulk interface.

sink.py       runs of records as bulk requests, and what each document was answered
bulk.py       the lines of a request, and the answer's items (pure)
mappings.py   a schema as the mapping of a new index
"""
