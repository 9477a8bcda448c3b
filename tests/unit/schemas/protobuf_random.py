"""Random Protobuf schemas, and values of Google's library for them."""

from __future__ import annotations

import random
import string
from typing import Any

from moldau.schemas.columns.protobuf_types import is_map

SCALARS = (
    "double", "float", "int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32", "fixed64",
    "sfixed32", "sfixed64", "bool", "string", "bytes",
)  # fmt: skip
KEYS = ("int32", "int64", "uint32", "sint64", "fixed32", "bool", "string")


def random_schema(rng: random.Random) -> str:
    """Messages M0.. of which each uses later ones only; an enum."""
    count = rng.randrange(1, 5)
    symbols = [f"S{number} = {number};" for number in sorted(rng.sample(range(1, 1000), 3))]
    lines = ['syntax = "proto3";', f"enum E {{ ZERO = 0; {' '.join(symbols)} }}"]
    for message in range(count):
        others = [f"M{later}" for later in range(message + 1, count)]
        fields, numbers = [], rng.sample([*range(1, 40), 1000, 2**29 - 200], 12)
        for name, number in zip(string.ascii_lowercase, numbers, strict=False):
            kind = rng.choice((*SCALARS, "E", *others, *others))
            label = rng.choice(("", "", "optional ", "repeated "))
            if rng.random() < 0.15:
                fields.append(f"map<{rng.choice(KEYS)}, {kind}> {name} = {number};")
            elif rng.random() < 0.15:
                fields.append(
                    f"oneof o{name} {{ {kind} {name} = {number}; int32 {name}x = {number + 100}; }}"
                )
            else:
                fields.append(f"{label}{kind} {name} = {number};")
        lines.append(f"message M{message} {{ {' '.join(fields)} }}")
    return "\n".join(lines)


def random_value(rng: random.Random, field: Any) -> Any:
    kind = field.type
    if field.enum_type is not None:
        return rng.choice([each.number for each in field.enum_type.values] + [77777])
    bits = 64 if kind in (3, 4, 6, 16, 18) else 32
    unsigned = rng.choice((0, 1, 2**bits - 1, 2 ** (bits - 1), rng.randrange(2**bits)))
    if kind in (4, 13, 6, 7):
        return unsigned
    if kind in (3, 5, 15, 16, 17, 18):
        return unsigned - 2 ** (bits - 1)
    if kind == 8:
        return rng.random() < 0.5
    if kind in (1, 2):
        return rng.choice((0.0, 0.5, -1.5e10))
    if kind == 9:
        return "".join(rng.choice("aß€😀") for _ in range(rng.randrange(40)))
    return rng.randbytes(rng.randrange(200))


def fill(rng: random.Random, message: Any, depth: int = 0) -> Any:
    for field in message.DESCRIPTOR.fields:
        if rng.random() < 0.3:
            continue
        target = getattr(message, field.name)
        if is_map(field):
            key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
            for _ in range(rng.randrange(3)):
                chosen = random_value(rng, key)
                if value.message_type is not None:
                    fill(rng, target[chosen], depth + 1)
                else:
                    target[chosen] = random_value(rng, value)
        elif field.message_type is not None and field.is_repeated:
            for _ in range(rng.randrange(3)):
                fill(rng, target.add(), depth + 1)
        elif field.message_type is not None:
            target.SetInParent()
            fill(rng, target, depth + 1)
        elif field.is_repeated:
            target.extend(random_value(rng, field) for _ in range(rng.choice((0, 1, 40))))
        else:
            setattr(message, field.name, random_value(rng, field))
    return message
