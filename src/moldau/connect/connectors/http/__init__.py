"""HTTP: records posted to an interface, and an interface's answers as records.

calls.py      one request: login, limits of rate and size, which answers may be asked for again
login.py      basic, bearer, OAuth 2 client credentials
settings.py   what both directions share
sink.py       at least once: each request has a key that is the same when it is sent again
source.py     pages by offset, by chaining, by cursor, or whole
"""
