"""Random Avro schemas, values of them, and schemas that they evolved to."""

from __future__ import annotations

import math
import random
import string
from typing import Any

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
LOGICAL = (
    {"type": "int", "logicalType": "date"},
    {"type": "long", "logicalType": "timestamp-millis"},
    {"type": "long", "logicalType": "timestamp-micros"},
    {"type": "long", "logicalType": "local-timestamp-millis"},
    {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 3},
    {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 0},
)
PROMOTIONS = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}


class Schemas:
    """Makes schemas, values of them, and readers that they evolved to."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self._names = 0

    def _name(self) -> str:
        self._names += 1
        return f"N{self._names}"

    def type(self, depth: int, union: bool = True) -> Any:
        rng = self.rng
        kinds = ["primitive"] * 6 + ["logical", "enum", "fixed", "decimal"]
        kinds += ["record", "array", "map"] * (depth > 0) + ["union"] * 3 * union
        kind = rng.choice(kinds)
        if kind == "primitive":
            return rng.choice(PRIMITIVES)
        if kind == "logical":
            return dict(rng.choice(LOGICAL))
        if kind == "enum":
            symbols = rng.sample(string.ascii_uppercase, rng.randrange(1, 5))
            return {"type": "enum", "name": self._name(), "symbols": symbols}
        if kind == "fixed":
            return {"type": "fixed", "name": self._name(), "size": rng.randrange(1, 20)}
        if kind == "decimal":
            own = {"type": "fixed", "name": self._name(), "size": 8}
            return own | {"logicalType": "decimal", "precision": 18, "scale": 2}
        if kind == "record":
            return self.record(depth - 1)
        if kind == "array":
            return {"type": "array", "items": self.type(depth - 1)}
        if kind == "map":
            return {"type": "map", "values": self.type(depth - 1)}
        branches: list[Any] = ["null"] if rng.random() < 0.7 else []
        for _ in range(rng.randrange(1, 4)):
            branch = self.type(depth - 1, union=False)
            if _kind(branch) not in [_kind(each) for each in branches]:
                branches.append(branch)
        return branches

    def record(self, depth: int) -> dict[str, Any]:
        fields = [
            {"name": f"f{index}", "type": self.type(depth)} for index in range(self.rng.randrange(1, 6))
        ]
        return {"type": "record", "name": self._name(), "fields": fields}

    def value(self, kind: Any) -> Any:
        rng = self.rng
        if isinstance(kind, list):
            return self.value(rng.choice(kind))
        if isinstance(kind, str):
            kind = {"type": kind}
        name = kind["type"]
        if kind.get("logicalType") == "decimal":
            limit = 10 ** kind["precision"] - 1
            number = rng.choice((0, 1, -1, limit, -limit, rng.randrange(-limit, limit)))
            size = kind.get("size") or number.bit_length() // 8 + 1
            return number.to_bytes(size, "big", signed=True)
        if name == "record":
            return {each["name"]: self.value(each["type"]) for each in kind["fields"]}
        if name == "array":
            return [self.value(kind["items"]) for _ in range(rng.choice((0, 1, 2, 5)))]
        if name == "map":
            return {rng.choice("abcdefgh") + "ß": self.value(kind["values"]) for _ in range(rng.randrange(3))}
        if name == "enum":
            return rng.choice(kind["symbols"])
        if name == "fixed":
            return rng.randbytes(kind["size"])
        if name == "long":
            bound = 2**51 if "logicalType" in kind else 2**63
            return rng.choice((0, -1, bound - 1, -bound, rng.randrange(-bound, bound)))
        return {
            "null": None,
            "boolean": rng.random() < 0.5,
            "int": rng.choice((0, -1, 2**31 - 1, -(2**31), rng.randrange(300))),
            "float": rng.choice((0.0, -0.5, 1.5e30, math.inf)),
            "double": rng.choice((0.0, 0.1, -1e300, math.inf)),
            "bytes": rng.randbytes(rng.randrange(20)),
            "string": "".join(rng.choice("aß€😀 ") for _ in range(rng.randrange(12))),
        }[name]

    def reader(self, kind: Any) -> Any:
        """A schema that values of `kind` can be read with, mostly."""
        rng = self.rng
        if isinstance(kind, list):
            return [self.reader(each) if isinstance(each, dict) else each for each in kind]
        if isinstance(kind, str):
            wider = PROMOTIONS.get(kind, ())
            if wider and rng.random() < 0.3:
                return rng.choice(wider)
            return ["null", kind] if kind != "null" and rng.random() < 0.1 else kind
        name = kind["type"]
        if name == "record":
            fields = [{**each, "type": self.reader(each["type"])} for each in kind["fields"]]
            fields = [each for each in fields if rng.random() < 0.8]
            rng.shuffle(fields)
            if rng.random() < 0.5:
                fields.append({"name": "added", "type": ["null", "string"], "default": None})
                fields.append({"name": "more", "type": {"type": "array", "items": "int"}, "default": [1, 2]})
            return {**kind, "fields": fields}
        if name in ("array", "map"):
            part = "items" if name == "array" else "values"
            return {**kind, part: self.reader(kind[part])}
        return kind


def _kind(kind: Any) -> Any:
    """What may be in a union once, for the oracle to know the branch by the Python type of a value."""
    if not isinstance(kind, dict):
        return {"long": "int", "double": "float", "string": "bytes"}.get(kind, kind)
    return _kind(kind["type"]) if kind["type"] not in ("record", "enum", "fixed") else kind["name"]
