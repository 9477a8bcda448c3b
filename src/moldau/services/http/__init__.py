"""What the HTTP services have in common: serving, bodies with limits, errors, logins, rights, settings.

    server.py        runs an application: in a loop, in the foreground, in a thread
    connections.py   limits of connections: heads, times, how many
    application.py   the layers around the routes: context, errors, pages, login
    bodies.py        bodies read whole, as JSON, or as they come
    answers.py       responses as JSON, in the media type asked for; long ones in pieces
    problems.py      error responses    media_types.py   Accept    counters.py   /metrics
    settings.py      settings by Confluent's names    assembly.py   from settings to a server
    login.py         passwords, tokens, certificates -> a principal    signed_tokens.py   JSON web tokens
    rights.py        which principal may do what
    forwarding.py  a request sent on to another instance
    watched_file.py  files of both, read again when they change

Needs starlette and uvicorn (the extras `registry` and `rest`), nothing of a broker.
"""
