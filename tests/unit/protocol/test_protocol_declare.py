"""Declaring, constructing, and what happens to values that a version cannot express."""

from __future__ import annotations

import subprocess
import sys

import pytest

from moldau.common.protocol.declare import (
    ZERO_UUID,
    Int16,
    Int32,
    Message,
    NullableString,
    Records,
    String,
    Struct,
    Uuid,
    array,
    field,
    message,
    response_to,
    since,
    struct,
    tagged,
)
from moldau.common.protocol.wire import MalformedMessage


@message(key=99, versions=(0, 4), flexible_from=3)
class OrderRequest(Message):
    table: String = ""
    guests: Int16 = 1
    note: NullableString = since(1, default=None, ignorable=True)
    urgent: Int32 = since(2)
    legacy: Int32 = field(default=-1, until=1)
    dishes: list[Dish] = array()
    waiter: Waiter | None = since(3, default=None)
    kitchen: Waiter = struct()
    voucher: NullableString = tagged(0, since=4, default=None, ignorable=True)
    tables: list[Int32] = tagged(1, since=3)


class Dish(Struct):
    """Used before it is declared, as in the message files."""

    name: String = ""
    id: Uuid = ZERO_UUID


class Waiter(Struct):
    name: String = field(default="Hans", nullable_since=0)
    age: Int16 = 30


@response_to(OrderRequest)
class OrderResponse(Message):
    records: Records = None


def test_fields_have_defaults_of_their_own():
    one, other = OrderRequest(), OrderRequest()
    one.dishes.append(Dish(name="soup"))
    one.kitchen.age = 31
    assert other.dishes == []
    assert other.kitchen == Waiter(name="Hans", age=30)
    assert (other.guests, other.note, other.waiter) == (1, None, None)


def test_unknown_keywords_and_positions_are_refused():
    with pytest.raises(TypeError):
        OrderRequest(tabel="7")
    with pytest.raises(TypeError):
        OrderRequest("7")
    with pytest.raises(AttributeError):
        OrderRequest().tabel = "7"


def test_equality_is_by_type_and_content_and_repr_names_the_fields():
    assert Dish(name="a") == Dish(name="a")
    assert Dish(name="a") != Dish(name="b")
    assert Dish() != Waiter()
    assert repr(Waiter(age=4)) == "Waiter(name='Hans', age=4)"
    with pytest.raises(TypeError):
        hash(Dish())


def test_bytes_of_an_old_version():
    order = OrderRequest(table="7", guests=2, legacy=5, dishes=[Dish(name="é", id=bytes(range(16)))])
    expected = (
        b"\0\x017\0\x02\xff\xff\0\0\0\x05\0\0\0\x01\0\x02\xc3\xa9" + bytes(range(16))
    ) + b"\0\x04Hans\0\x1e"
    assert order.encode(1) == expected
    assert OrderRequest.decode(expected, 1) == order


def test_bytes_of_a_flexible_version():
    order = OrderRequest(table="7", urgent=9, waiter=Waiter(age=1), voucher="v", tables=[3])
    expected = (
        b"\x027\0\x01\0\0\0\0\x09\x01"  # table, guests, no note, urgent, no dishes
        b"\x01\x05Hans\0\x01\0"  # a waiter, with an empty tag section
        b"\x05Hans\0\x1e\0"  # the kitchen
        b"\x02\0\x02\x02v\x01\x05\x02\0\0\0\x03"  # two tags: | 0 | 2 bytes | "v" |, | 1 | 5 bytes | [3] |
    )
    assert order.encode(4) == expected
    assert OrderRequest.decode(expected, 4) == order


def test_tags_nobody_knows_are_stepped_over():
    plain = OrderRequest().encode(3)
    assert plain.endswith(b"\0")
    tagged_bytes = plain[:-1] + b"\x02\x00\x03abc\xff\x01\x01x"
    assert OrderRequest.decode(tagged_bytes, 3) == OrderRequest()
    with pytest.raises(MalformedMessage):
        OrderRequest.decode(plain[:-1] + b"\x01\x05\x7fabc", 3)


def test_a_tagged_field_must_fill_its_size():
    plain = OrderRequest().encode(4)
    assert OrderRequest.decode(plain[:-1] + b"\x01\x00\x02\x02v", 4).voucher == "v"
    with pytest.raises(MalformedMessage):
        OrderRequest.decode(plain[:-1] + b"\x01\x00\x03\x02vv", 4)


def test_a_value_that_a_version_lacks_is_dropped_only_if_ignorable():
    assert OrderRequest(note="x").encode(0) == OrderRequest().encode(0)
    with pytest.raises(ValueError, match=r"urgent is set, but version 1"):
        OrderRequest(urgent=1).encode(1)
    with pytest.raises(ValueError, match="legacy"):
        OrderRequest(legacy=1).encode(2)
    with pytest.raises(ValueError, match="waiter"):
        OrderRequest(waiter=Waiter()).encode(2)
    with pytest.raises(ValueError, match="tables"):
        OrderRequest(tables=[1]).encode(2)
    assert OrderRequest(voucher="v").encode(3) == OrderRequest().encode(3)


@pytest.mark.parametrize(
    "order",
    [
        OrderRequest(table=None),
        OrderRequest(guests=2**15),
        OrderRequest(guests=None),
        OrderRequest(dishes=None),
        OrderRequest(table="x" * 2**15),
        OrderRequest(dishes=[None]),
        OrderRequest(table="\ud800"),
    ],
)
def test_values_of_the_wrong_kind_are_a_value_error(order):
    with pytest.raises(ValueError):  # noqa: PT011 - the text is struct's
        order.encode(0)


@pytest.mark.parametrize("version", [0, 3])
def test_text_is_at_most_32767_bytes_long_in_every_version(version):
    order = OrderRequest(table="x" * (2**15 - 1))
    assert OrderRequest.decode(order.encode(version), version) == order
    with pytest.raises(ValueError):  # noqa: PT011 - in old versions the text is struct's
        OrderRequest(table="x" * 2**15).encode(version)
    too_long = b"\x81\x80\x02" + b"x" * 2**15 + OrderRequest().encode(3)[1:]
    with pytest.raises(MalformedMessage):
        OrderRequest.decode(too_long, 3)


def test_versions_not_declared_are_refused():
    for version in (-1, 5):
        with pytest.raises(ValueError, match="versions 0 to 4"):
            OrderRequest().encode(version)
        with pytest.raises(ValueError, match="versions 0 to 4"):
            OrderRequest.decode(b"", version)


def test_text_that_is_not_utf8_is_malformed():
    data = OrderRequest(table="ab").encode(0).replace(b"ab", b"\xc3\x28")
    with pytest.raises(MalformedMessage):
        OrderRequest.decode(data, 0)


def test_null_where_null_is_not_allowed_is_malformed():
    data = OrderRequest(table="ab").encode(0)
    with pytest.raises(MalformedMessage):
        OrderRequest.decode(b"\xff\xff" + data[4:], 0)
    with pytest.raises(MalformedMessage):
        OrderRequest.decode(b"\0" + OrderRequest(table="a").encode(3)[2:], 3)


def test_records_are_slices_of_the_frame():
    frame = memoryview(bytearray(b"....\0\0\0\x05batch"))
    response = OrderResponse.decode(frame, 0, 4)
    assert isinstance(response.records, memoryview)
    assert response.records.obj is frame.obj
    assert OrderResponse(records=response.records).encode_parts(0)[-1] is response.records
    assert response == OrderResponse(records=b"batch")


def test_request_and_response_belong_together():
    assert OrderRequest.RESPONSE is OrderResponse
    assert (OrderResponse.KEY, OrderResponse.VERSIONS, OrderResponse.FLEXIBLE_FROM) == (99, (0, 4), 3)
    assert not OrderRequest.is_flexible(2)
    assert OrderRequest.is_flexible(3)


def test_declaring_compiles_nothing():
    """A broker imports all messages when it starts, and must pay for no more than it uses."""
    code = (
        "import importlib, pkgutil, sys, moldau.common.protocol.messages as m\n"
        "for i in pkgutil.iter_modules(m.__path__): importlib.import_module(f'{m.__name__}.{i.name}')\n"
        "late = {f'moldau.common.protocol.{name}' for name in ('compiler', 'schema')}\n"
        "print([n for n in sys.modules if n in late])"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        == "[]\n"
    )
