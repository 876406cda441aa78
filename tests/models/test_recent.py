"""The table that forgets what was not used for longest."""

from hookgw import Recent


def test_what_was_not_used_for_longest_is_forgotten() -> None:
    recent = Recent[str, int](2)
    recent.put("a", 1)
    recent.put("b", 2)
    assert recent.get("a") == 1
    recent.put("c", 3)
    assert [recent.get(key) for key in "abc"] == [1, None, 3]
    recent.put("a", 4)
    recent.put("d", 5)
    assert [recent.get(key) for key in "acd"] == [4, None, 5]


def test_a_value_that_is_taken_out_makes_room() -> None:
    recent = Recent[str, int](2)
    recent.put("a", 1)
    recent.put("b", 2)
    assert recent.pop("a") == 1
    assert recent.pop("a") is None
    recent.put("c", 3)
    assert [recent.get(key) for key in "abc"] == [None, 2, 3]
