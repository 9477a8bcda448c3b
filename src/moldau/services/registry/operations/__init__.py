"""The registry's operations, one file a kind; service.py calls them.

    core.py       what all need: state, settings, parser
    scope.py      which settings, mode and alias hold for a subject
    request.py    the body of a request: checked, and turned into a schema
    tagging.py    tags within a schema that a request adds and removes
    views.py      a schema as responses show it
    listing.py    lists and searches
    reading.py    one schema: by version, id, guid
    finding.py    which version has a schema
    comparing.py  compatibility
    registering.py, deleting.py, configuring.py     decisions of writes

A decision of a write is a function of the state: it returns records and an answer, and changes nothing.
"""
