"""Request and reply over two topics."""

from moldau.kit.requests.asynchronous import AsyncRequester
from moldau.kit.requests.headers import RemoteError
from moldau.kit.requests.requester import Requester
from moldau.kit.requests.responder import Responder

__all__ = ["AsyncRequester", "RemoteError", "Requester", "Responder"]
