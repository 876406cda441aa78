"""The fields of WAHA's JSON, of whatever type an engine has written them."""

from hookgw.connectors import found_at
from plugins.waha.fields import id_text, renamed


def test_parts() -> None:
    assert found_at({"a": {"b": 1}}, "a", "b") == 1
    assert found_at({"a": []}, "a", "b") is None
    assert found_at(None, "a") is None
    assert [id_text(value) for value in ("1@lid", {"_serialized": "1@lid"}, {"$1": "1@lid"}, None)] == [
        *("1@lid", "1@lid", "1@lid", ""),
    ]
    given = {"a": 1, "b": "", "c": None, "d": False, "e": [], "f": 0}
    names = {name: name.upper() for name in "abcdefg"}
    assert renamed(given, names) == {"A": 1, "F": 0}
