"""The ``filter`` of a registration. No I/O."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from msgspec import UNSET, Struct

from hookgw.kernel.errors import Invalid
from hookgw.kernel.json_fields import (
    MISSING,
    NOT_ONE_OF,
    Check,
    Fields,
    as_object,
    as_text,
    check_count,
    kind_of,
    list_of,
    not_empty,
    text_up_to,
)
from hookgw.kernel.schema_parts import object_schema, ref
from hookgw.kernel.sentences import Sentence
from hookgw.records.event_filters import FIELDS, FilterOp, Scalar, split_pointer
from hookgw.records.event_filters import Condition as StoredCondition

MAX_CONDITIONS = 20
MAX_POINTER = 512
# Levels of the payload that one look at an event goes through.
MAX_DEPTH = 16
_TOO_DEEP = Sentence.declared("filter.too_deep", "{where} has {count} levels; at most {most} are allowed.")
MAX_IN = 500
MAX_TEXT = 1024
_TEXT_TOO_LONG = Sentence.declared(
    "filter.text_too_long", "{where} has {count:,} characters; at most {most:,} are allowed."
)
# Of all conditions together. Lists of registrations show them, and each lane holds its own.
MAX_CHARACTERS = 32 * 1024

# Beyond 64 bits, decoders of JSON disagree about a number.
_MAX_NUMBER = 2**63

_OPS = {op.lower(): op for op in FilterOp}


def read_filter(fields: Fields, value: Any, where: str) -> tuple[StoredCondition, ...]:
    """Check a filter: a list of ``{"pointer": …, "op": …, "value": …}``.

    Each ignored field of a condition gets a warning in ``fields``.
    """

    def check_condition(value: Any, where: str) -> StoredCondition:
        given = as_object(value, where)
        inner = Fields((where, given))
        pointer = inner.need(check_pointer, "/data", "pointer")
        op = inner.need(check_op, FilterOp.EXISTS, "op")
        inner.ignore("value")
        if not inner.problems:
            try:
                wanted = _check_value(op, given, f"{where}.value")
            except Invalid as error:
                inner.problems += error.messages
        fields.warn(inner.finish())
        return StoredCondition(pointer, op, wanted)

    conditions = list_of(check_condition, MAX_CONDITIONS)(value, where)
    size = sum(len(one.pointer) + len(json.dumps(one.value)) for one in conditions)
    if size > MAX_CHARACTERS:
        raise Invalid.of(
            "filter.too_long",
            "{where} has {size:,} characters; at most {most:,} are allowed.",
            where=where,
            size=size,
            most=MAX_CHARACTERS,
        )
    return conditions


def check_pointer(value: Any, where: str) -> str:
    pointer = text_up_to(MAX_POINTER)(value, where)
    try:
        tokens = split_pointer(pointer)
    except ValueError as error:
        raise Invalid.of(
            "filter.pointer_form",
            "{where} {reason}; write it as in /data/key/remoteJid.",
            where=where,
            reason=error,
        ) from None
    if tokens[0] not in FIELDS:
        raise Invalid.of(
            "filter.root",
            "{where} must begin with {choices} or /{fields}.",
            where=where,
            choices=", ".join(f"/{name}" for name in FIELDS[:-1]),
            fields=FIELDS[-1],
        )
    check_count(tokens, MAX_DEPTH, where, _TOO_DEEP)
    return pointer


def check_op(value: Any, where: str) -> FilterOp:
    """Check the operation of a condition: ``notEquals``, ``not_equals`` and ``not equals`` are the same."""
    folded = as_text(value, where)[:32].lower().replace(" ", "").replace("_", "").replace("-", "")
    op = _OPS.get(folded)
    if op is None:
        raise Invalid(NOT_ONE_OF(where=where, choices=", ".join(FilterOp)))
    return op


def _check_value(op: FilterOp, given: dict[str, Any], where: str) -> Scalar | tuple[Scalar, ...]:
    check = OPERATIONS[op.positive].check
    if check is None:
        if given.get("value") is not None:
            other = FilterOp.EXISTS if op is FilterOp.NOT_EXISTS else FilterOp.NOT_EXISTS
            raise Invalid.of(
                "filter.value_without_meaning",
                "{where} means nothing to {op}: leave it out. For the opposite, use {other}.",
                where=where,
                op=op,
                other=other,
            )
        return None
    if "value" not in given:
        raise Invalid(MISSING(where=where))
    return check(given["value"], where)


def _check_scalar(value: Any, where: str) -> Scalar:
    if not (value is None or isinstance(value, str | int | float)):
        raise Invalid.of(
            "filter.value_type",
            "{where} must be a string, a number, true, false or null, not {kind}.",
            where=where,
            kind=kind_of(value),
        )
    if isinstance(value, str):
        check_count(value, MAX_TEXT, where, _TEXT_TOO_LONG)
    if isinstance(value, int | float) and not -_MAX_NUMBER < value < _MAX_NUMBER:
        raise Invalid.of("filter.number_range", "{where} must be between -2^63 and 2^63.", where=where)
    return value


_check_scalars = not_empty(
    list_of(_check_scalar, MAX_IN),
    Sentence.declared("filter.no_values", "{where} is empty; name at least one value."),
)


class Operation(NamedTuple):
    """What a condition compares with, in words; its check, ``None`` for nothing; and when it holds."""

    value: str
    check: Check[Scalar | tuple[Scalar, ...]] | None
    holds: str


OPERATIONS = {
    FilterOp.EQUALS: Operation(
        "a string, a number, `true`, `false` or `null`",
        _check_scalar,
        "the value at the pointer is of the same type and equal (`1` and `1.0` are)",
    ),
    FilterOp.IN: Operation(f"a list of 1 to {MAX_IN} of them", _check_scalars, "it equals one of them"),
    FilterOp.PREFIX: Operation("a string", text_up_to(MAX_TEXT), "it is a string that begins with this one"),
    FilterOp.EXISTS: Operation("none", None, "something is at the pointer, which may be `null`"),
}

CONDITION = object_schema(
    "A condition on an event.",
    {
        "pointer": {
            "type": "string",
            "maxLength": MAX_POINTER,
            "pattern": f'^/({"|".join(FIELDS)})(/([^~/"\\\\\\x00-\\x1f]|~[01])*){{0,{MAX_DEPTH - 1}}}$',
            "description": "A JSON pointer (RFC 6901) into the event, such as /data/key/remoteJid.",
        },
        "op": ref("FilterOp") | {"description": "What is asked of the value at the pointer."},
        "value": {
            "description": "A string, a number, true, false or null; a list of them for in and notIn, a "
            "string for prefix and notPrefix; none for exists and notExists."
        },
    },
    required=["pointer", "op"],
)


class Condition(Struct, frozen=True):
    """A condition on an event.

    Attributes:
        pointer: a JSON pointer (RFC 6901) into the event.
        op: what is asked of the value there.
        value: what it is compared with.
    """

    pointer: str
    op: FilterOp
    value: Any = UNSET


def write_condition(condition: Any) -> Any:
    if not isinstance(condition, StoredCondition):
        return condition
    shown = {"pointer": condition.pointer, "op": str(condition.op)}
    return shown if condition.op.positive is FilterOp.EXISTS else shown | {"value": condition.value}
