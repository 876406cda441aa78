"""The comparison of two texts."""

from hypothesis import given
from hypothesis import strategies as st

from tests.public.site import CONTEXT, MOST_LINES, Line, compare

LINES = st.lists(st.sampled_from("abcd"), min_size=1, max_size=12)


def side(lines: list[Line], name: str) -> list[str]:
    return [one.text for line in lines if (one := getattr(line, name)) is not None]


@given(LINES, LINES)
def test_each_side_has_its_lines_in_order_and_equal_ones_face_each_other(a: list[str], b: list[str]) -> None:
    found = compare("\n".join(a), "\n".join(b))
    left_out = sum(line.left_out for line in found.lines)
    assert len(side(found.lines, "left")) + left_out == len(a)
    assert len(side(found.lines, "right")) + left_out == len(b)
    for line in found.lines:
        if line.left is not None:
            assert a[line.left.number - 1] == line.left.text
        if line.right is not None:
            assert b[line.right.number - 1] == line.right.text
        if line.is_equal:
            assert line.left is not None
            assert line.right is not None
            assert line.left.text == line.right.text
    assert (found.differing == 0) == (a == b)


def test_equal_lines_far_from_a_difference_are_left_out() -> None:
    many = [str(number) for number in range(50)]
    found = compare("\n".join(many), "\n".join([*many[:25], "new", *many[25:]]))
    assert [line.left_out for line in found.lines if line.left_out] == [25 - CONTEXT, 25 - CONTEXT]
    assert (found.differing, len(found.lines)) == (1, 2 * CONTEXT + 3)


def test_long_texts_are_cut() -> None:
    found = compare("x", "\n".join("xy"[number % 2] for number in range(3 * MOST_LINES)))
    assert not found.is_whole
    assert len(found.lines) <= MOST_LINES + 1
