"""JsonConverter's settings."""

from __future__ import annotations

from moldau.connect.settings import Importance, Setting, SettingType, Width

JSON_SETTINGS = (
    Setting(
        "schemas.enable",
        SettingType.BOOLEAN,
        'Each record carries its schema: {"schema": ..., "payload": ...}. false: plain JSON.',
        True,
        Importance.HIGH,
        "Schemas",
        "Enable Schemas",
        Width.MEDIUM,
        0,
    ),
    Setting(
        "schemas.cache.size",
        SettingType.INT,
        "How many schemas this converter remembers.",
        1000,
        Importance.HIGH,
        "Schemas",
        "Schema Cache Size",
        Width.MEDIUM,
        1,
    ),
    Setting(
        "schema.content",
        SettingType.STRING,
        "The schema (as JSON) of all records that a sink reads, which then carry none. Needs schemas.enable.",
        None,
        Importance.HIGH,
        "Schemas",
        "Schema Content",
        Width.MEDIUM,
        2,
    ),
    Setting(
        "decimal.format",
        SettingType.STRING,
        "How decimals are written: BASE64 (their unscaled bytes) or NUMERIC (a number). Both are read.",
        "BASE64",
        Importance.LOW,
        "Serialization",
        "Decimal Format",
        Width.MEDIUM,
        0,
        choices=("NUMERIC", "BASE64"),
    ),
    Setting(
        "replace.null.with.default",
        SettingType.BOOLEAN,
        "A null in a field that has a default becomes that default; false: it stays null.",
        True,
        Importance.LOW,
        "Serialization",
        "Replace null with default",
        Width.MEDIUM,
        1,
    ),
)
