"""What people type into the search of deliveries."""

import pytest

from hookgw import Invalid
from tests.public.deliveries import Words, kind_of_words, last_part, parse_search, with_words, without


def is_shop(name: str) -> bool:
    return name == "shop"


@pytest.mark.parametrize(
    ("text", "filters", "words"),
    [
        ("", {}, ""),
        ("state:dead kind:messages_upsert", {"state": "dead", "kind": "messages_upsert"}, ""),
        ("refused state:dead by peer", {"state": "dead"}, "refused by peer"),
        ('error:"no route to host" x', {"error": "no route to host"}, "x"),
        ('payload:"open', {"text": "open"}, ""),
        ("webhook:crm EVENT:CALL", {"label": "crm", "kind": "CALL"}, ""),
        ("https://crm.example/x", {}, "https://crm.example/x"),
        ("unknown:thing", {}, "unknown:thing"),
        ("since:2026-11-20T10:00:00Z", {"since": "2026-11-20T10:00:00Z"}, ""),
        ("state:", {}, "state:"),
        ('the "" end', {}, "the  end"),
        ('payload:"a ""b"" c" x', {"text": 'a "b" c'}, "x"),
    ],
)
def test_qualifiers_and_words(text: str, filters: dict[str, str], words: str) -> None:
    assert parse_search(text) == (filters, words)


def test_a_qualifier_cannot_be_given_twice() -> None:
    with pytest.raises(Invalid, match="The search has state: twice"):
        parse_search("state:dead state:pending")


@pytest.mark.parametrize(
    ("words", "kind", "value"),
    [
        ("", Words.NONE, ""),
        ("dlv_17", Words.DELIVERY, "dlv_17"),
        ("shop", Words.INSTANCE, "shop"),
        ("+55 (11) 98888-7777", Words.NUMBER, "5511988887777"),
        ("5511988887777", Words.NUMBER, "5511988887777"),
        ("5511988887777@s.whatsapp.net", Words.PERSON, "5511988887777@s.whatsapp.net"),
        ("https://ana:x@crm.example:8443/hook?a=b", Words.HOST, "crm.example:8443"),
        ("http://[::1]:80/x", Words.HOST, "[::1]:80"),
        ("3EB0C767D097B7C7", Words.TEXT, "3EB0C767D097B7C7"),
        ("Saturdays?", Words.TEXT, "Saturdays?"),
    ],
)
def test_what_words_are(words: str, kind: Words, value: str) -> None:
    assert kind_of_words(words, is_shop) == (kind, value)


def test_a_search_is_written_as_it_is_read() -> None:
    text = with_words({"state": "dead"}, "payload", "two words")
    assert parse_search(text) == ({"state": "dead", "text": "two words"}, "")
    text = with_words({"error": 'a"b'}, "payload", '"c" d"')
    assert parse_search(text) == ({"error": 'a"b', "text": '"c" d"'}, "")
    text = 'SINCE:2h "a word" until:"today 14:00" kind:x https://a.example'
    assert without(text, "since", "until") == '"a word" kind:x https://a.example'


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", ("", "", "")),
        ("sta", ("", "", "sta")),
        ("x state:de", ("x ", "state", "de")),
        ("x http:", ("x ", "", "http:")),
    ],
)
def test_the_last_part_is_completed(text: str, part: tuple[str, str, str]) -> None:
    assert last_part(text) == part
