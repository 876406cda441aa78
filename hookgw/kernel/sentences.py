"""Sentences of errors, each with an id and the values in it. No I/O."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

TEXT = "text"
"""The id of a text of a plugin or a library."""
_SCALARS = {str, int, float, bool, type(None)}


class Sentence(str):
    """An English sentence of an error, made from its template, which is at one place of the code.

    Clients translate by the id, so an id never changes its meaning and is never removed
    (``tests/support/error_ids.txt``). ``docs/reference/errors.md`` lists all of them.

    Args:
        id: words such as ``field.unknown``: what it is about, a dot, what is wrong.
        template: the sentence, with the placeholders of :meth:`str.format`.
        values: of the placeholders, and others for programs. What is no JSON scalar becomes its text. None
            may be a secret.

    Attributes:
        id, template: as given.
        values: as given; and ``at``, if the sentence has a place before it, see :meth:`at`.
    """

    id: str
    template: str
    values: dict[str, Any]

    def __new__(cls, id: str, template: str, /, **values: Any) -> Sentence:  # noqa: A002 -- the word of the wire
        values = {name: value if type(value) in _SCALARS else str(value) for name, value in values.items()}
        sentence = super().__new__(cls, values.get("at", "") + template.format_map(values))
        sentence.id, sentence.template, sentence.values = id, template, values
        return sentence

    def __getnewargs_ex__(self) -> tuple[tuple[str, str], dict[str, Any]]:
        return (self.id, self.template), self.values

    @classmethod
    def declared(cls, id: str, template: str) -> Callable[..., Sentence]:  # noqa: A002 -- the word of the wire
        """Return what makes a sentence that several places say: a call of it takes the values."""
        return partial(cls, id, template)

    def at(self, place: str) -> Sentence:
        """Return the sentence with the place of a part of the request before it, such as ``events[1].``"""
        if self.template.startswith("{where}"):
            return Sentence(self.id, self.template, **{**self.values, "where": place + self.values["where"]})
        return Sentence(self.id, self.template, **{**self.values, "at": place + self.values.get("at", "")})


def sentence_of(reason: str | Exception) -> Sentence:
    """Return the sentence of a reason. A text of a plugin or a library has the id ``text``."""
    if isinstance(reason, Exception):
        reason = (
            reason.args[0] if len(reason.args) == 1 and isinstance(reason.args[0], Sentence) else str(reason)
        )
    return reason if isinstance(reason, Sentence) else Sentence(TEXT, "{text}", text=reason)
