"""Each sentence of an error has an id that stays."""

import re
from collections import Counter

from tests.public.kernel import Invalid, NetworkRefused, Sentence, sentence_of
from tests.public.web import response_to
from tests.support.error_sentences import IDS, bare_texts, declared_sentences


def test_an_id_has_one_template_at_one_place() -> None:
    declared = declared_sentences()
    several = {id_ for id_, count in Counter(one.id for one in declared).items() if count > 1}
    assert [one for one in declared if one.id in several] == []
    assert [one for one in declared if not re.fullmatch(r"[a-z_]+(\.[a-z0-9_]+)+", one.id)] == []


def test_no_error_is_made_of_a_text_without_an_id() -> None:
    assert bare_texts() == [], "use Sentence, or HookgwError.of"


def test_ids_are_never_removed() -> None:
    listed = IDS.read_text(encoding="utf-8").split()
    assert listed == sorted(set(listed))
    found = {one.id for one in declared_sentences()}
    assert set(listed) - found == set(), "clients translate by these ids: keep them"
    assert found - set(listed) == set(), f"add the new ids to {IDS.name}, in their order"


def test_a_body_has_an_id_with_values_for_each_sentence() -> None:
    error = Invalid(
        Sentence("field.missing", "{where} is missing.", where="event"),
        Sentence("test.size", "{bytes:,} bytes.", bytes=12_000).at("events[3].data: "),
        "A plugin's own text.",
    )
    body = response_to(error, "GET", "/").body
    assert body == (
        b'{"status":400,"error":"Bad Request","response":{"message":["event is missing.",'
        b'"events[3].data: 12,000 bytes.","A plugin\'s own text."],"errors":['
        b'{"id":"field.missing","values":{"where":"event"}},'
        b'{"id":"test.size","values":{"bytes":12000,"at":"events[3].data: "}},'
        b'{"id":"text","values":{"text":"A plugin\'s own text."}}]}}'
    )


def test_a_number_that_the_network_does_not_know_has_an_id_too() -> None:
    refused = NetworkRefused(
        Sentence("network.refused", "The network refused."), unknown_numbers={"5511": "5511@s.whatsapp.net"}
    )
    assert b'"errors":[{"id":"number.not_on_network","values":{"number":"5511"' in (
        response_to(refused, "GET", "/").body
    )


def test_a_place_before_a_field_becomes_a_part_of_its_path() -> None:
    sentence = Sentence("field.missing", "{where} is missing.", where="data").at("events[1].")
    assert (str(sentence), sentence.values) == ("events[1].data is missing.", {"where": "events[1].data"})
    assert sentence_of(ValueError(sentence)) is sentence
    assert sentence_of(ValueError("No.")).id == "text"
