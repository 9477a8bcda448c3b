"""The wire protocol: messages declared once and compiled to straight-line codecs, frames, error codes.

Nothing here knows what a message means; nothing here reads or writes a socket.
"""
