"""The short form of a filter's conditions on the command line: ``/data/key/fromMe=false``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import click
import msgspec

from hookgw.records.event_filters import Condition, FilterOp

_FORM = re.compile(r"(?P<absent>!?)(?P<pointer>/[^=^!]*)(?:(?P<sign>!?\^?=)(?P<value>.*))?", re.DOTALL)

# What _FORM leaves in the pointer and the value of an operator that does not exist, such as > and ==.
_IN_POINTER = re.compile(r"[<>]|[~*$|?:\s]\Z")
_IN_VALUE = re.compile(r"[=~<>]")


def read_conditions(
    _ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]
) -> list[Any] | None:
    """Read conditions. Return ``None`` if there are none.

    ``POINTER=VALUE`` means equals; ``^=`` is for a prefix. A list in JSON asks for one of several values, and
    a pointer alone for its existence. ``!`` before the sign, or before the pointer alone, negates. VALUE is
    JSON or, if it is no JSON, a text. A JSON object is a condition as in the API, for any other pointer.
    """
    # `None` leaves the stored filter as it is; an empty list would remove it.
    return [_read(value) for value in values] or None


def _read(text: str) -> dict[str, Any]:
    if text.startswith("{"):
        try:
            found: dict[str, Any] = msgspec.json.decode(text, type=dict[str, Any])
        except (msgspec.DecodeError, RecursionError) as error:
            raise click.BadParameter(f"{text!r} is not a JSON object: {error}.") from error
        return found
    match = _FORM.fullmatch(text)
    if match is None or (match["absent"] and match["sign"]):
        raise click.BadParameter(
            f"{text!r} is not a condition. Write /data/key/fromMe=false, or != and ^= (begins with); "
            "/data/message or !/data/message for whether it exists; or a JSON object."
        )
    if _IN_POINTER.search(match["pointer"]) or (
        match["sign"] in ("=", "!=") and _IN_VALUE.match(match["value"])
    ):
        raise click.BadParameter(
            f"{text!r} has an unknown operator. The operators are =, !=, ^= (begins with) and !^=, "
            "without spaces. For a name with such characters, write a JSON object, as in the API; for such a "
            "text, use quotation marks: /data/a='\"=5\"'."
        )
    if match["sign"] is None:
        return {"pointer": match["pointer"], "op": "notExists" if match["absent"] else "exists"}
    value: Any = match["value"]
    with suppress(msgspec.DecodeError, RecursionError):  # otherwise it is a text without quotation marks
        value = msgspec.json.decode(value)
    negates = match["sign"].startswith("!")
    if "^" in match["sign"]:
        # A prefix is always a text: of a telephone number, for example.
        value = value if isinstance(value, str) else match["value"]
        return {"pointer": match["pointer"], "op": "notPrefix" if negates else "prefix", "value": value}
    if isinstance(value, list):
        return {"pointer": match["pointer"], "op": "notIn" if negates else "in", "value": value}
    return {"pointer": match["pointer"], "op": "notEquals" if negates else "equals", "value": value}


def show_condition(condition: Mapping[str, Any]) -> str:
    value = condition.get("value")
    wanted = tuple(value) if isinstance(value, list) else value
    return str(Condition(condition["pointer"], FilterOp(condition["op"]), wanted))
