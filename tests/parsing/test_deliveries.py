from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from hookgw import EventKind, Invalid
from tests.public.deliveries import parse_cancellation, parse_replay
from tests.public.events import parse_erasure
from tests.public.kernel import MAX_SENTENCES
from tests.public.records import Catalog, DeliverySelection

CATALOG = Catalog(EventKind(name=name, meaning="…") for name in ("MESSAGES_UPSERT", "CALL"))
NOW = 1_800_000_000.0
NOON = 1_795_176_000.0


def replay_of(body: Any) -> DeliverySelection:
    return parse_replay(body, CATALOG, now=NOW).selection


def problems_of(body: Any) -> tuple[str, ...]:
    with pytest.raises(Invalid) as caught:
        parse_replay(body, CATALOG, now=NOW)
    return caught.value.messages


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ({"since": "2h"}, DeliverySelection(since=NOW - 7200)),
        ({"since": "2026-11-20T12:00:00Z"}, DeliverySelection(since=NOON)),
        (
            {"since": "2026-11-20T14:00:00+02:00", "until": "1m"},
            DeliverySelection(since=NOON, until=NOW - 60),
        ),
        ({"since": "0", "state": "all"}, DeliverySelection(since=NOW, state="all")),
        ({"since": "0", "until": None, "state": None, "kinds": None}, DeliverySelection(since=NOW)),
        (
            {"since": "0", "kinds": ["messages.upsert"]},
            DeliverySelection(since=NOW, kinds=("MESSAGES_UPSERT",)),
        ),
        ({"since": "0", "kinds": [], "label": "crm"}, DeliverySelection(since=NOW, label="crm")),
    ],
)
def test_valid_bodies(body: Any, wanted: DeliverySelection) -> None:
    assert replay_of(body) == msgspec.structs.replace(wanted, state=wanted.state or "dead")


@pytest.mark.parametrize(
    ("body", "beginning"),
    [
        ([1], "The body must be an object"),
        ({}, "since is missing."),
        ({"since": None}, "since is missing."),
        ({"since": "yesterday"}, "since must be an RFC 3339 time"),
        ({"since": 5}, "since must be an RFC 3339 time"),
        ({"since": "2h", "until": {}}, "until must be an RFC 3339 time"),
        ({"since": "2h", "until": "9999-99-99T00:00:00Z"}, "until must be an RFC 3339 time"),
        ({"since": "2h", "state": "pending"}, "state must be one of dead, all."),
        ({"since": "2h", "kinds": "CALL"}, "kinds must be a list"),
        ({"since": "2h", "kinds": ["CALL", "CAL"]}, "kinds[1]: 'CAL' is not a known event kind."),
        ({"since": "2h", "kinds": [1]}, "kinds[0] must be"),
        ({"since": "2h", "label": 5}, "label must be a string"),
        ({"since": "2h", "label": "x" * 129}, "label must have 1 to 128"),
    ],
)
def test_each_mistake_is_reported(body: Any, beginning: str) -> None:
    (problem,) = problems_of(body)
    assert problem.startswith(beginning)


def test_every_mistake_is_reported_at_once() -> None:
    assert len(problems_of({"state": "x", "until": "x"})) == 3


def test_the_edges_of_the_lists() -> None:
    assert len(replay_of({"since": "0", "kinds": ["CALL"] * 1000}).kinds) == 1000
    assert len(problems_of({"since": "0", "kinds": ["CALL"] * 1001})) == 1
    assert replay_of({"since": "0", "label": "x" * 128}).label == "x" * 128


def test_no_instances_are_not_all_instances() -> None:
    with pytest.raises(Invalid, match=r"^instances names no instance\."):
        parse_cancellation({"instances": []}, CATALOG, now=NOW, over_all=True)
    assert parse_cancellation({}, CATALOG, now=NOW, over_all=True).selection.instances == ()


def test_unknown_fields_are_mistakes() -> None:
    """Ignored, a misspelt field would let everything be selected."""
    assert problems_of({"since": "0", "States": "all", "limit": 5}) == (
        "States is not a field of a replay. Did you mean state?",
        "limit is not a field of a replay.",
    )
    with pytest.raises(Invalid) as caught:
        parse_cancellation({"labels": "crm", "kind": ["CALL"], "dryrun": True}, CATALOG, now=NOW)
    assert caught.value.messages == (
        "labels is not a field of a cancellation. Did you mean label?",
        "kind is not a field of a cancellation. Did you mean kinds?",
        "dryrun is not a field of a cancellation. Did you mean dryRun?",
    )
    with pytest.raises(Invalid) as caught:
        parse_erasure({"remoteJid": "5@s", "remote_jid": "6@s"})
    assert caught.value.messages == ("remote_jid is not a field of an erasure. Did you mean remoteJid?",)


def test_a_person_that_sqlite_would_not_find_is_refused() -> None:
    problem = "{} must not contain the character NUL."
    assert problems_of({"since": "0", "person": "5\0@s"}) == (problem.format("person"),)
    with pytest.raises(Invalid) as caught:
        parse_erasure({"remoteJid": "5\0@s"})
    assert caught.value.messages == (problem.format("remoteJid"),)


def test_the_name_of_an_unknown_field_can_be_seen() -> None:
    assert problems_of({"since": "0", "": 1, " since": 1}) == (
        "'' is not a field of a replay.",
        "' since' is not a field of a replay. Did you mean since?",
    )


def test_few_of_many_unknown_fields_are_compared() -> None:
    problems = problems_of({"since": "0"} | {f"kinds{number}": 1 for number in range(50_000)})
    assert len(problems) == MAX_SENTENCES + 1
    assert problems[MAX_SENTENCES - 1] == "kinds99 is not a field of a replay. Did you mean kinds?"


def test_the_name_of_an_unknown_kind_is_compared_in_part_only() -> None:
    with pytest.raises(Invalid) as caught:
        parse_replay({"since": "1h", "kinds": ["MESSAGES_UPSER" + "T" * 900_000]}, CATALOG, now=NOW)
    assert str(caught.value).endswith("is not a known event kind.")
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("parse", [parse_replay, parse_cancellation])
def test_a_range_that_is_empty_is_refused(parse: Callable[..., object]) -> None:
    for body in (
        {"since": "1h", "until": "2h"},
        {"since": "1h", "until": "1h"},
        {"since": "2026-11-20T13:00:00Z", "until": "2026-11-20T12:00:00Z"},
    ):
        with pytest.raises(Invalid, match=r"^since must be before until\.$"):
            parse(body, CATALOG, now=NOW)
    parse({"since": "2h", "until": "1h"}, CATALOG, now=NOW)
    parse({"since": "2999-01-01T00:00:00Z"}, CATALOG, now=NOW)
