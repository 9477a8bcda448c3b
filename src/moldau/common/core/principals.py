"""Principals as texts, `type:name`, and the setting super.users, which lists them."""


def check_principal(principal: str) -> str:
    """The principal, if it has the form type:name; else ValueError."""
    kind, colon, name = principal.partition(":")
    if not (kind and colon and name):
        raise ValueError(f"expected a string in format principalType:principalName but got {principal}")
    return principal


def parse_super_users(text: str) -> tuple[str, ...]:
    """The principals of `super.users`. A semicolon separates them: the name of a certificate has commas.
    ValueError for one that is not type:name.
    """
    return tuple(check_principal(each.strip()) for each in text.split(";") if each.strip())
