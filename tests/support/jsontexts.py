"""JSON texts for Hypothesis: every spelling that RFC 8259 allows, not only those that an encoder writes."""

import json

from hypothesis import strategies as st

_ODD_NUMBERS = [
    "-0",
    "0",
    "-0.0",
    "0e0",
    "0E-0",
    "1E+2",
    "1.10",
    "9007199254740993",
    "18446744073709551617",
    "-9223372036854775809",
    "1e-400",
    "1.7976931348623157e308",
    "0.1000000000000000055511151231257827",
]
NUMBERS = st.one_of(
    st.sampled_from(_ODD_NUMBERS),
    st.integers().map(str),
    st.from_regex(r"-?(0|[1-9][0-9]{0,40})(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,2})?", fullmatch=True),
)
"""Small and huge, with every digit and sign that an encoder would leave out."""

_PLAIN = st.characters(exclude_categories=["Cs", "Cc"], exclude_characters='"\\')
_ESCAPES = st.sampled_from([rf"\{mark}" for mark in '"\\/bfnrt'])
_UNITS = st.one_of(st.integers(0, 0xD7FF), st.integers(0xE000, 0xFFFF)).map(lambda unit: rf"\u{unit:04x}")
_PAIRS = st.builds(
    lambda high, low: rf"\u{high:04X}\u{low:04x}", st.integers(0xD800, 0xDBFF), st.integers(0xDC00, 0xDFFF)
)
STRINGS = st.lists(_PLAIN | _ESCAPES | _UNITS | _PAIRS, max_size=8).map(lambda parts: f'"{"".join(parts)}"')
"""With and without escapes, also of what needs none."""

_NAMES = STRINGS | st.sampled_from(['"data"', '"event"', '"instance"', '"\\u0064ata"', '""'])


def json_texts(*, breaks: bool = True, max_leaves: int = 12) -> st.SearchStrategy[str]:
    """Any JSON text, without white space round it.

    Args:
        breaks: line breaks may stand between its parts.
        max_leaves: of values that hold no others.
    """
    gaps = st.sampled_from(["", "", "", " ", "\t", *(("\n", "\r\n ") if breaks else ())])
    words = st.sampled_from(["null", "true", "false"])
    return st.recursive(
        words | NUMBERS | STRINGS,
        lambda inner: _lists(inner, gaps) | _objects(inner, gaps) | _towers(inner),
        max_leaves=max_leaves,
    )


def _lists(inner: st.SearchStrategy[str], gaps: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.builds(
        lambda items, gap: f"[{gap}{f'{gap},{gap}'.join(items)}{gap}]", st.lists(inner, max_size=4), gaps
    )


def _objects(inner: st.SearchStrategy[str], gaps: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Their names differ, however they are spelled."""
    members = st.lists(st.tuples(_NAMES, inner), max_size=4, unique_by=lambda member: json.loads(member[0]))
    return st.builds(
        lambda pairs, gap: (
            f"{{{gap}"
            + f"{gap},{gap}".join(f"{name}{gap}:{gap}{value}" for name, value in pairs)
            + f"{gap}}}"
        ),
        members,
        gaps,
    )


def _towers(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Deep nesting, below the limit for all that this strategy makes."""
    return st.builds(
        lambda value, height: f'{"[" * height}{{"":{value}}}{"]" * height}', inner, st.integers(1, 20)
    )
