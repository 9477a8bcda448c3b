"""Headers of which some have names that are not UTF-8, as confluent-kafka gives them: with holes."""

import ctypes

from moldau.common.core.message_headers import message_headers


def with_hole(value):
    """A tuple (nothing, value)."""
    api = ctypes.pythonapi
    api.PyTuple_New.restype = ctypes.py_object
    api.PyTuple_New.argtypes = [ctypes.c_ssize_t]
    made = api.PyTuple_New(2)
    # Whatever has two references already, SetItem refuses to change.
    second = id(made) + tuple.__basicsize__ + ctypes.sizeof(ctypes.c_void_p)
    api.Py_IncRef(ctypes.py_object(value))
    ctypes.c_void_p.from_address(second).value = id(value)
    return made


class Message:
    """The first question raises; later ones give what was kept."""

    def __init__(self, kept):
        self.kept = kept
        self.is_asked = False

    def headers(self):
        if not self.is_asked:
            self.is_asked = True
            raise SystemError("returned a result with an exception set")
        return self.kept

    def set_headers(self, headers):
        self.kept = headers


def test_holes_get_a_name_and_the_other_headers_stay():
    message = Message([("trace", b"7"), with_hole(b"v"), ("empty", None), with_hole(None)])
    whole = [("trace", b"7"), ("\ufffd", b"v"), ("empty", None), ("\ufffd", None)]
    assert message_headers(message) == whole
    assert message_headers(message) == whole  # the message has them now


def test_a_message_without_headers():
    message = Message(None)
    message.is_asked = True
    assert message_headers(message) == ()
