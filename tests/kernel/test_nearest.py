"""Suggestions for misspelled names."""

from tests.public.kernel import nearest, suggestion


def test_a_similar_name_is_suggested() -> None:
    assert nearest("bnd", ["bind", "path"]) == "bind"
    assert suggestion("fiter", ["filter"]) == " Did you mean filter?"


def test_a_name_that_is_not_similar_is_not() -> None:
    assert nearest("zzz", ["bind", "path"]) is None
    assert suggestion("xyz", ["filter"]) == ""
