"""An ACL in one line, for people: `Allow User:alice READ on TOPIC:LITERAL:orders from *`."""

from enum import IntEnum

from moldau.common.protocol.operations import Operation, PatternType, Permission, ResourceType


def word(kind: type[IntEnum], value: int) -> str:
    """The name of a number of the protocol; the number itself, if it has none."""
    try:
        return kind(value).name
    except ValueError:
        return str(value)


def described(
    resource_type: int,
    resource_name: str,
    pattern_type: int,
    principal: str,
    host: str,
    operation: int,
    permission: int,
) -> str:
    """The line; the fields are those of metadata.acls.Acl, in that order."""
    return (
        f"{word(Permission, permission).capitalize()} {principal} {word(Operation, operation)} on "
        f"{word(ResourceType, resource_type)}:{word(PatternType, pattern_type)}:{resource_name} from {host}"
    )
