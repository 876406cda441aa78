"""Answers that many routes give, and the types of their fields."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from hookgw.models.units import DURATION_PATTERN

Time = Annotated[str, Meta(extra_json_schema={"format": "date-time"}, examples=["2026-11-20T12:00:00.000Z"])]
Length = Annotated[str, Meta(pattern=DURATION_PATTERN, examples=["15s"])]
"""A length of time with its unit."""
Count = Annotated[int, Meta(ge=0)]


class Messages(Struct, frozen=True):
    """What is wrong.

    Attributes:
        message: sentences that say what is wrong, where, and what would be right.
    """

    message: Annotated[list[str], Meta(min_length=1)]


class Error(Struct, frozen=True):
    """Any error, whatever raised it.

    Attributes:
        status: the status of the answer.
        error: its phrase.
        response: the reasons.
    """

    status: Annotated[int, Meta(ge=400, le=599)]
    error: str
    response: Messages


class DoneMessage(Struct, frozen=True):
    """What was done.

    Attributes:
        message: a sentence.
    """

    message: str


class Done(Struct, frozen=True):
    """The answer of calls that delete or end something.

    Attributes:
        status: that it is done.
        error: that it is none.
        response: what was done.
    """

    status: Literal["SUCCESS"]
    error: bool
    response: DoneMessage


class Health(Struct, frozen=True):
    """How the process is.

    Attributes:
        status: a word for it.
    """

    status: Literal["ok", "ready"]
