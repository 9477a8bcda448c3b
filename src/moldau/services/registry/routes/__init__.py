"""The registry's paths: each parses a request, checks rights, calls the service, answers.

    calls.py          what all have in common: worker threads, rights, read-only, forwarding
    subjects.py       /subjects...            schemas.py    /schemas...
    compatibility.py  /compatibility...       levels.py     /config..., /mode...
    server.py         /, /v1/metadata, /contexts, /exporters, /associations

Every path also works below /contexts/{context}, where names without a context lie in that one.
"""
