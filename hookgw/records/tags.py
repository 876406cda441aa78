"""Tags: names with values that instances carry, such as ``tenant=acme``. No I/O."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hookgw.kernel.errors import Invalid
from hookgw.kernel.json_fields import as_object, check_count, show_name
from hookgw.kernel.sentences import Sentence

MOST_TAGS = 16
TAG_PART = r"[A-Za-z0-9._@-]{1,64}"
_PART = re.compile(TAG_PART, re.ASCII)
_TOO_MANY = Sentence.declared("tags.too_many", "{where} has {count:,} tags; at most {most} are allowed.")
_REPEATED = Sentence.declared(
    "tags.filter_repeated", "{where} is given {count:,} times; an instance has at most {most} tags."
)
_RULE = "1 to 64 letters (A-Z, a-z), digits, '.', '_', '@' or '-'"


def check_tags(value: Any, where: str = "tags") -> dict[str, str]:
    """Return the tags of an object, sorted by name. Raise ``Invalid`` with every mistake."""
    given = as_object(value, where)
    check_count(given, MOST_TAGS, where, _TOO_MANY)
    problems = []
    for name, tag in given.items():
        if not _PART.fullmatch(name):
            problems.append(
                Sentence(
                    "tags.name_form",
                    "{where}: the name {name} must be {rule}.",
                    where=where,
                    name=show_name(name),
                    rule=_RULE,
                )
            )
        elif not isinstance(tag, str) or not _PART.fullmatch(tag):
            problems.append(
                Sentence(
                    "tags.value_form", "{where}.{name} must be {rule}.", where=where, name=name, rule=_RULE
                )
            )
    if problems:
        raise Invalid(*problems)
    return dict(sorted(given.items()))


def parse_tag(text: str, where: str = "tag") -> tuple[str, str]:
    """Return the name and value of a tag that is written ``name=value``. Raise ``Invalid`` for another."""
    name, _, value = text.partition("=")
    if not (_PART.fullmatch(name) and _PART.fullmatch(value)):
        raise Invalid.of(
            "tags.filter_form",
            "{where} must be NAME=VALUE, as in tenant=acme; each of them is {rule}.",
            where=where,
            rule=_RULE,
        )
    return name, value


def parse_tags(texts: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return the tags of several texts, as :func:`parse_tag` does; empty ones mean nothing."""
    given = [text for text in texts if text]
    check_count(given, MOST_TAGS, "tag", _REPEATED)
    return tuple(parse_tag(text) for text in given)


def tags_from(texts: Iterable[str], where: str = "tag") -> dict[str, str]:
    """Return what an instance, or a reach, is to carry; raise ``Invalid`` if a name has two values, too.

    Args:
        texts: each as for :func:`parse_tag`.
        where: names a text in a message.
    """
    tags: dict[str, str] = {}
    for text in texts:
        name, value = parse_tag(text, where)
        if tags.setdefault(name, value) != value:
            raise Invalid.of(
                "tags.two_values", "{name} is given twice: an instance has one value of each tag.", name=name
            )
    return tags


def tag_texts(tags: Mapping[str, str]) -> list[str]:
    """Return tags as :func:`parse_tag` reads them."""
    return [f"{name}={value}" for name, value in tags.items()]


def has_tags(tags: Mapping[str, str], wanted: Iterable[tuple[str, str]]) -> bool:
    """Return whether an instance's tags have all of some; a name may be among these with two values."""
    return all(tags.get(name) == value for name, value in wanted)
