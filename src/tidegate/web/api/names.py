"""Names in addresses: they may have slashes, and what can be done to them is an address of its own."""

from __future__ import annotations

from starlette.convertors import StringConvertor, register_url_convertor


def register(kind: str, *actions: str) -> None:
    """Makes `{name:kind}` a name that does not end in one of these actions."""

    class Name(StringConvertor):
        regex = rf"(?:(?!/(?:{'|'.join(actions)})$).)+"

    register_url_convertor(kind, Name())
