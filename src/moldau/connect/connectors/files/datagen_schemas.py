"""The quickstarts of Datagen: which fields they have; names and fields as Confluent's, values our own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Quickstart(NamedTuple):
    """One of them."""

    schema: Mapping[str, Any]
    key: str


def _drawn(kind: str, **properties: Any) -> dict[str, Any]:
    return {"type": kind, "arg.properties": properties}


def _between(kind: str, low: float, high: float) -> dict[str, Any]:
    return _drawn(kind, range={"min": low, "max": high})


def _counted(kind: str, start: int, step: int = 1) -> dict[str, Any]:
    return _drawn(kind, iteration={"start": start, "step": step})


def _one_of(*options: Any, kind: str = "string") -> dict[str, Any]:
    return _drawn(kind, options=list(options))


def _record(key: str, record: str, **fields: Any) -> Quickstart:
    named = [{"name": name, "type": kind} for name, kind in fields.items()]
    return Quickstart({"type": "record", "name": record, "namespace": "ksql", "fields": named}, key)


_USER = _drawn("string", regex="User_[1-9]")
_CITIES = ("Prague", "Brno", "Pilsen", "Linz", "Dresden", "Hamburg")
_ADDRESS = {
    "type": "record",
    "name": "address",
    "fields": [
        {"name": "city", "type": _drawn("string", regex="City_[1-9][0-9]?")},
        {"name": "state", "type": _drawn("string", regex="State_[1-9][0-9]?")},
        {"name": "zipcode", "type": _between("long", 10_000, 99_999)},
    ],
}

QUICKSTARTS: Mapping[str, Quickstart] = {
    "orders": _record(
        "orderid",
        "orders",
        ordertime=_between("long", 1_487_715_775_521, 1_519_273_364_600),
        orderid=_counted("int", 0),
        itemid=_drawn("string", regex="Item_[1-9][0-9]{0,2}"),
        orderunits=_between("double", 0.1, 10.0),
        address=_ADDRESS,
    ),
    "users": _record(
        "userid",
        "users",
        registertime=_between("long", 1_487_715_775_521, 1_519_273_364_600),
        userid=_USER,
        regionid=_drawn("string", regex="Region_[1-9]"),
        gender=_one_of("MALE", "FEMALE", "OTHER"),
    ),
    "pageviews": _record(
        "viewtime",
        "pageviews",
        viewtime=_counted("long", 1, 10),
        userid=_USER,
        pageid=_drawn("string", regex="Page_[1-9][0-9]?"),
    ),
    "ratings": _record(
        "rating_id",
        "ratings",
        rating_id=_counted("long", 1),
        user_id=_between("int", 1, 20),
        stars=_between("int", 1, 6),
        route_id=_between("int", 1, 10_000),
        rating_time=_counted("long", 1, 12),
        channel=_one_of("web", "ios", "android", "ios-test"),
        message=_one_of("all was well", "late again", "never before so fast", "where is my suitcase?"),
    ),
    "stock_trades": _record(
        "symbol",
        "StockTrade",
        side=_one_of("BUY", "SELL"),
        quantity=_between("int", 1, 5000),
        symbol=_one_of("ZBZX", "ZJZZT", "ZTEST", "ZVV", "ZVZZT", "ZWZZT", "ZXZZT"),
        price=_between("int", 5, 1000),
        account=_one_of("ABC123", "LMN456", "XYZ789"),
        userid=_USER,
    ),
    "clickstream": _record(
        "ip",
        "clickstream",
        ip=_drawn("string", regex="[1-9][0-9]\\.[1-9][0-9]\\.[1-9][0-9]\\.[1-9][0-9]"),
        userid=_between("int", 1, 40),
        remote_user=_one_of("-"),
        time=_counted("long", 1, 10),
        _time=_counted("long", 1, 10),
        request=_one_of("GET /index.html HTTP/1.1", "GET /login.html HTTP/1.1", "GET /m.png HTTP/1.1"),
        status=_one_of("200", "302", "404", "405", "406", "407"),
        bytes=_one_of("278", "1289", "2048", "4096", "4006", "4196", "14096"),
        referrer=_one_of("-"),
        agent=_one_of("Mozilla/5.0 (compatible; Robot/2.1)", "Mozilla/5.0 (X11; Linux x86_64)"),
    ),
    "transactions": _record(
        "transaction_id",
        "transactions",
        transaction_id=_counted("long", 1),
        card_id=_between("long", 1, 100),
        user_id=_drawn("string", regex="User_[1-9]?"),
        purchase_id=_counted("long", 0),
        store_id=_between("int", 1, 8),
    ),
    "credit_cards": _record(
        "card_id",
        "credit_cards",
        card_id=_counted("long", 1),
        card_number=_drawn("string", regex="[1-9][0-9]{3}-[0-9]{4}-[0-9]{4}-[0-9]{4}"),
        cvv=_drawn("string", regex="[0-9]{3}"),
        expiration_date=_drawn("string", regex="(0[1-9]|1[0-2])/2[7-9]"),
    ),
    "stores": _record(
        "store_id",
        "stores",
        store_id=_counted("int", 1),
        city=_one_of(*_CITIES),
        state=_drawn("string", regex="[A-Z]{2}"),
    ),
    "product": _record(
        "id",
        "product",
        id=_counted("long", 1),
        name=_one_of("hammer", "saw", "spanner", "drill", "plane"),
        description=_drawn("string", length={"min": 10, "max": 40}),
        price=_between("double", 1.0, 500.0),
    ),
    "inventory": _record(
        "id",
        "inventory",
        id=_counted("long", 1),
        quantity=_between("long", 0, 1000),
        productid=_between("long", 1, 1000),
    ),
    "purchases": _record(
        "id",
        "purchases",
        id=_counted("long", 0),
        item_type=_one_of("book", "record", "tool", "toy"),
        quantity=_between("long", 1, 10),
        price_per_unit=_between("double", 1.0, 100.0),
    ),
}
