"""The wire protocol: message declarations, compiled codecs, frames, error codes. No handlers and no
sockets.
"""
