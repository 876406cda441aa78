import base64
import itertools
from typing import Any

import msgspec
import pytest

from hookgw import EventKind, Invalid, Registration
from tests.public.kernel import (
    DAY,
    MASK,
    MAX_BAD_ITEMS,
    MAX_HEADERS,
    MAX_SENTENCES,
    Secret,
    Signature,
    make_secret,
    sentence_of,
    unmask_headers,
    unmask_url,
    with_masked_user,
)
from tests.public.records import Catalog, Condition, FilterOp, Ordering, RetryOptions
from tests.public.webhooks import (
    MAX_CONCURRENCY,
    ListedRegistration,
    RegistrationChange,
    parse_backfill,
    parse_grace,
    parse_registration,
    refuse_fields,
)

CATALOG = Catalog(
    EventKind(name=name, meaning="…")
    for name in ("MESSAGES_UPSERT", "MESSAGES_UPDATE", "CONNECTION_UPDATE", "QRCODE_UPDATED")
)
URL = "https://example.com/hook"
NO_SECRET = "secret must be whsec_ followed by the base64 of 24 to 64 bytes."


def change_of(body: Any) -> RegistrationChange:
    return parse_registration(body, CATALOG)[0]


def problems_of(body: Any) -> tuple[str, ...]:
    with pytest.raises(Invalid) as caught:
        parse_registration(body, CATALOG)
    return caught.value.messages


SPELLINGS = (
    {"url": URL, "webhook_by_events": True, "webhook_base64": True, "events": ["MESSAGES_UPSERT"]},
    {
        "url": URL,
        "enabled": True,
        "webhookByEvents": True,
        "webhookBase64": True,
        "events": ["messages.upsert"],
    },
    {
        "webhook": {
            "enabled": True,
            "url": URL,
            "byEvents": True,
            "base64": True,
            "events": ["messages-upsert"],
        }
    },
    {"webhook": URL, "by_events": True, "base64": True, "events": ["messages_upsert", "MESSAGES_UPSERT"]},
)


@pytest.mark.parametrize("body", SPELLINGS)
def test_every_dialect_means_the_same(body: dict[str, Any]) -> None:
    wanted = RegistrationChange(url=URL, by_events=True, base64=True, events=("MESSAGES_UPSERT",))
    assert parse_registration(body, CATALOG) == (wanted, [])


@pytest.mark.parametrize(("one", "other"), [*itertools.permutations(range(3), 2)])
def test_every_mix_of_dialects_means_the_same(one: int, other: int) -> None:
    mixed = SPELLINGS[one] | SPELLINGS[other]
    assert parse_registration(mixed, CATALOG) == parse_registration(SPELLINGS[one], CATALOG)


def test_the_nested_object_wins_over_the_fields_beside_it() -> None:
    nested = {"url": URL, "byEvents": False, "events": []}
    beside = {"url": "https://other.example", "webhookByEvents": True, "enabled": False, "events": ["CALL"]}
    change = change_of({"webhook": nested, **beside})
    assert (change.url, change.by_events, change.enabled, change.events) == (URL, False, False, ())


@pytest.mark.parametrize("events", [["*"], ["CALL", "*"]])
def test_a_star_is_every_kind_as_at_stripe_and_waha(events: list[str]) -> None:
    assert change_of({"url": URL, "events": events}).events == ()


def test_the_smallest_body_selects_every_kind_and_keeps_stored_fields() -> None:
    change = change_of({"url": URL})
    assert (change.enabled, change.events) == (True, ())
    kept = (
        "by_events",
        "base64",
        "headers",
        "secret",
        "ordering",
        "concurrency",
        "timeout",
        "retry",
        "filter",
        "plugins",
    )
    assert all(getattr(change, name) is msgspec.UNSET for name in kept)


@pytest.mark.parametrize(
    "name",
    ["events", "enabled", "headers", "byEvents", "base64", "secret", "ordering", "concurrency", "plugins"],
)
def test_null_is_read_as_left_out(name: str) -> None:
    assert parse_registration({"url": URL, name: None}, CATALOG) == parse_registration({"url": URL}, CATALOG)


def test_null_brings_the_gateways_timeout_and_retry_rules_back() -> None:
    change, warnings = parse_registration({"url": URL, "timeout": None, "retry": None}, CATALOG)
    assert (change.timeout, change.retry) == (None, RetryOptions())
    assert warnings == []


def test_all_options_are_read() -> None:
    secret = "whsec_" + base64.b64encode(bytes(32)).decode()
    change = change_of(
        {
            "url": URL,
            "headers": {"Authorization": "Bearer x", "X-Empty": ""},
            "secret": secret,
            "ordering": "chat",
            "concurrency": 4,
            "timeout": "2500ms",
            "retry": {"schedule": ["1s", "1m"], "maxAge": "1h", "disable_after": "2d"},
            "plugins": {"message_filters": {"fromMe": False}},
        }
    )
    assert change.headers == {"Authorization": "Bearer x", "X-Empty": ""}
    assert change.secret == Secret(secret)
    assert (change.ordering, change.concurrency, change.timeout) == (Ordering.CHAT, 4, 2.5)
    assert change.retry == RetryOptions(schedule=(1.0, 60.0), max_age=3600.0, disable_after=172800.0)
    assert change.plugins == {"message_filters": {"fromMe": False}}


@pytest.mark.parametrize("url", ["vazio", "", "ftp://x", "x" * 2048])
def test_a_disabled_registration_may_have_any_url(url: str) -> None:
    assert change_of({"url": url, "enabled": False}).url == url
    assert change_of({"webhook": {"url": url, "enabled": False}}).url == url


@pytest.mark.parametrize(
    "url",
    [
        "vazio",
        "",
        "ftp://example.com",
        "https:///x",
        "https://a b",
        "https://a/#f",
        "https://a/" + "x" * 2048,
    ],
)
def test_an_enabled_one_may_not(url: str) -> None:
    (problem,) = problems_of({"webhook": {"url": url}})
    assert problem.startswith("webhook.url: ")


def test_a_disabled_one_has_an_overlong_url_refused() -> None:
    assert problems_of({"url": "x" * 2049, "enabled": False}) == (
        "url has 2,049 characters; at most 2,048 are allowed.",
    )


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"url": 5}, "url must be a string, not a number."),
        ({"enabled": "yes"}, "enabled must be true or false, not a string."),
        ({"enabled": 1}, "enabled must be true or false, not a number."),
        ({"webhook_by_events": []}, "webhook_by_events must be true or false, not a list."),
        ({"base64": {}}, "base64 must be true or false, not an object."),
        ({"events": "MESSAGES_UPSERT"}, "events must be a list, not a string."),
        ({"events": ["QRCODE_UPDATED", 3]}, "events[1] must be the name of an event kind, a string."),
        ({"events": ["CALL"] * 100}, "events has 100 items, but there are only 4 event kinds."),
        ({"ordering": "strict"}, "ordering must be one of url, instance, chat, none."),
        ({"ordering": []}, "ordering must be one of url, instance, chat, none."),
        ({"concurrency": 0}, f"concurrency must be a whole number from 1 to {MAX_CONCURRENCY}."),
        (
            {"concurrency": MAX_CONCURRENCY + 1},
            f"concurrency must be a whole number from 1 to {MAX_CONCURRENCY}.",
        ),
        ({"concurrency": True}, f"concurrency must be a whole number from 1 to {MAX_CONCURRENCY}."),
        ({"timeout": "99ms"}, "timeout must be from 100ms to 5m, not 99ms."),
        ({"timeout": "301s"}, "timeout must be from 100ms to 5m, not 301s."),
        ({"timeout": [1]}, "timeout must be a duration such as 200ms, 5s, 10m, 1h or 3d, not a list."),
        ({"retry": [1]}, "retry must be an object, not a list."),
        ({"retry": {"schedule": "5s"}}, "retry.schedule must be a list, not a string."),
        ({"retry": {"schedule": ["1s"] * 101}}, "retry.schedule has 101 items; at most 100 are allowed."),
        ({"retry": {"schedule": ["1s", "8d"]}}, "retry.schedule[1] must be from 0s to 1w, not 8d."),
        ({"retry": {"maxAge": "0"}}, "retry.maxAge must be from 1s to 365d, not 0s."),
        ({"plugins": ["a"]}, "plugins must be an object, not a list."),
        ({"plugins": {"a": {}, "b": 1}}, "plugins.b must be an object, not a number."),
        ({"webhook": [1]}, "webhook must be an object, not a list."),
    ],
)
def test_each_broken_rule_is_reported_with_its_path(fields: dict[str, Any], problem: str) -> None:
    assert problems_of({"url": URL} | fields) == (problem,)


@pytest.mark.parametrize("concurrency", [1, MAX_CONCURRENCY])
@pytest.mark.parametrize("timeout", ["100ms", "5m"])
def test_bounds_are_inclusive(concurrency: int, timeout: str) -> None:
    assert change_of({"url": URL, "concurrency": concurrency, "timeout": timeout}).concurrency == concurrency


@pytest.mark.parametrize("ordering", Ordering)
def test_every_ordering_is_accepted(ordering: Ordering) -> None:
    assert change_of({"url": URL, "ordering": ordering.value}).ordering is ordering


def test_every_mistake_is_reported_at_once() -> None:
    problems = problems_of(
        {"webhook": {"url": "x", "events": ["MESAGES_UPSERT", "messages.updat"]}, "timeout": 5}
    )
    assert len(problems) == 4
    assert problems[1].startswith("webhook.events[0]: 'MESAGES_UPSERT' is not a known")
    assert problems[1].endswith("Did you mean MESSAGES_UPSERT?")
    assert problems[2].endswith("Did you mean MESSAGES_UPDATE?")


@pytest.mark.parametrize(
    ("body", "problem"), [({}, "url is missing."), ({"webhook": {}}, "webhook.url is missing.")]
)
def test_the_url_is_required(body: Any, problem: str) -> None:
    assert problems_of(body) == (problem,)


@pytest.mark.parametrize(
    ("body", "kind"),
    [(None, "null"), ([1], "a list"), ("x", "a string"), (1, "a number"), (True, "true"), (False, "false")],
)
def test_a_body_must_be_an_object(body: Any, kind: str) -> None:
    assert problems_of(body) == (f"The body must be an object, not {kind}.",)


def test_unknown_fields_are_warned_of_with_their_path() -> None:
    body = {"webhook": {"url": URL, "colour": 1}, "qr\ncode": 2, "retry": {"tries": 3}, "x" * 99: 0}
    assert parse_registration(body, CATALOG)[1] == [
        "retry.tries is an unknown field; it was ignored.",
        "webhook.colour is an unknown field; it was ignored.",
        "qr\\ncode is an unknown field; it was ignored.",
        f"{'x' * 64}… is an unknown field; it was ignored.",
    ]


def test_fields_that_responses_add_may_be_sent_back() -> None:
    shown = {field.encode_name: None for field in msgspec.structs.fields(ListedRegistration)}
    assert {"id", "stateReason", "source", "job"} <= shown.keys()
    assert parse_registration({**shown, "url": URL}, CATALOG)[1] == []


@pytest.mark.parametrize("size", [24, 64])
def test_secrets_of_24_to_64_bytes_are_accepted(size: int) -> None:
    secret = "whsec_" + base64.b64encode(bytes(size)).decode()
    assert change_of({"url": URL, "secret": secret}).secret == Secret(secret)


@pytest.mark.parametrize(
    ("secret", "problem"),
    [
        (
            "whsec_" + base64.b64encode(bytes(23)).decode(),
            NO_SECRET,
        ),
        (
            "whsec_" + base64.b64encode(bytes(65)).decode(),
            NO_SECRET,
        ),
        (
            base64.b64encode(bytes(32)).decode(),
            NO_SECRET,
        ),
        ("whsec_" + "é" * 32, NO_SECRET),
        ("whsec_" + "A" * 33, NO_SECRET),
        ("whsec_" + "-_" * 16, NO_SECRET),
        (5, "secret must be a string, not a number."),
    ],
)
def test_other_secrets_are_refused(secret: Any, problem: str) -> None:
    assert problems_of({"url": URL, "secret": secret}) == (problem,)


@pytest.mark.parametrize(
    "name",
    [
        *(
            "Host",
            "content-length",
            "Connection",
            "Keep-Alive",
            "TE",
            "Trailer",
            "Transfer-Encoding",
            "Upgrade",
            "Expect",
        ),
        *("Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection", "webhook-id", "Webhook-Anything"),
        *("X-Event-Type", "x-instance-name", "X-ATTEMPT"),
    ],
)
def test_headers_that_are_the_gateways_are_refused(name: str) -> None:
    (problem,) = problems_of({"url": URL, "headers": {name: "x"}})
    assert problem == f"headers.{name} cannot be set: hookgw writes it itself."
    assert sentence_of(problem).id == "headers.reserved"


@pytest.mark.parametrize("name", ["", "a b", "a:b", "a\r\nb", "é", "a\0"])
def test_header_names_are_tokens(name: str) -> None:
    (problem,) = problems_of({"webhook": {"url": URL, "headers": {name: "x"}}})
    assert problem.startswith("webhook.headers: ")
    assert "\n" not in problem
    assert "\r" not in problem


@pytest.mark.parametrize("value", ["a\r\nb: c", "a\nb", "\0", "é", " a", "a ", "\t", "\x7f"])
def test_header_values_have_no_line_breaks_and_the_like(value: str) -> None:
    assert problems_of({"url": URL, "headers": {"x": value}}) == (
        "headers.x must be visible ASCII with spaces or tabs only inside, and no line breaks.",
    )


@pytest.mark.parametrize(("value", "kind"), [(None, "null"), (5, "a number"), (["a"], "a list")])
def test_header_values_are_strings(value: Any, kind: str) -> None:
    assert problems_of({"url": URL, "headers": {"x": value}}) == (f"headers.x must be a string, not {kind}.",)


def test_header_names_are_case_insensitive() -> None:
    assert problems_of({"url": URL, "headers": {"X-A": "1", "x-a": "2"}}) == (
        "headers: x-a appears twice, in different capitals.",
    )


def test_headers_of_a_delivery_are_hookgws() -> None:
    assert problems_of({"url": URL, "headers": {"X-Attempt": "1", "x": 1, "Host": "x"}}) == (
        "headers.X-Attempt cannot be set: hookgw writes it itself.",
        "headers.x must be a string, not a number.",
        "headers.Host cannot be set: hookgw writes it itself.",
    )


def test_headers_have_a_limit_in_number() -> None:
    headers = {f"x-{number}": "" for number in range(MAX_HEADERS)}
    assert change_of({"url": URL, "headers": headers}).headers == headers
    assert problems_of({"url": URL, "headers": headers | {"one-more": ""}}) == (
        "headers has 33 headers; at most 32 are allowed.",
    )


def test_headers_have_a_limit_in_size() -> None:
    assert change_of({"url": URL, "headers": {"x": "y" * 4095}})
    assert problems_of({"url": URL, "headers": {"x": "y" * 4096}}) == (
        "headers has 4,097 bytes of names and values; at most 4,096 are allowed.",
    )


def test_masked_values_stand_for_the_stored_ones() -> None:
    stored = {"Authorization": "Bearer secret", "x-gone": "1"}
    given = {"authorization": MASK, "x-new": "2"}
    assert unmask_headers(given, stored) == {"authorization": "Bearer secret", "x-new": "2"}


def test_a_masked_value_that_is_not_stored_is_refused() -> None:
    with pytest.raises(Invalid, match=r"headers\.x-new is masked, but no value is stored"):
        unmask_headers({"x-new": MASK}, {})


@pytest.mark.parametrize(
    ("body", "seconds"),
    [
        ({}, 86400),
        ({"grace": "24h"}, 86400),
        ({"grace": "0"}, 0),
        ({"grace": "30d"}, 30 * DAY),
    ],
)
def test_grace(body: Any, seconds: float) -> None:
    assert parse_grace(body) == seconds


@pytest.mark.parametrize("body", [None, [1], {"grace": 5}, {"grace": "31d"}, {"grace": "soon"}])
def test_bad_grace(body: Any) -> None:
    with pytest.raises(Invalid):
        parse_grace(body)


def test_an_unknown_field_beside_the_grace_is_refused() -> None:
    with pytest.raises(Invalid, match=r"gracePeriod is not a field of a rotation\. Did you mean grace\?"):
        parse_grace({"gracePeriod": "0s"})


def test_spellings_that_contradict_each_other_get_a_warning() -> None:
    change, warnings = parse_registration({"url": URL, "byEvents": False, "webhook_by_events": True}, CATALOG)
    assert change.by_events is False
    [warning] = warnings
    assert warning.endswith("mean the same, but have different values; webhook_by_events was ignored.")


def test_spellings_that_contradict_each_other_begin_no_backfill() -> None:
    body = {"since": 1, "dryRun": True, "dry_run": False}
    with pytest.raises(Invalid, match="dryRun and dry_run mean the same, but have different values"):
        parse_backfill(body, CATALOG, now=5.0)


@pytest.mark.parametrize("body", [None, [1], {"label": "crm"}, {"name": None}])
def test_fields_are_refused_where_none_means_anything(body: Any) -> None:
    with pytest.raises(Invalid):
        refuse_fields(body, "a deletion")


def test_an_object_without_fields_says_nothing() -> None:
    refuse_fields({}, "a deletion")


def test_a_change_applies() -> None:
    stored = change_of({"url": URL, "headers": {"a": "b"}}).apply(
        None, instance="loja1", label="default", now=1.0
    )
    changed = change_of({"url": URL, "timeout": "1s"}).apply(
        stored, instance="loja1", label="default", now=2.0
    )
    assert isinstance(changed, Registration)
    assert (changed.headers, changed.timeout, changed.secrets) == ({"a": "b"}, 1.0, stored.secrets)


def test_a_change_can_be_stored() -> None:
    change = change_of({"url": URL, "timeout": "1s", "retry": {"schedule": ["1s"], "maxAge": "1d"}})
    stored = change.apply(None, instance="loja1", label="default", now=1.0)
    assert msgspec.json.decode(msgspec.json.encode(stored), type=Registration) == stored


def test_a_masked_user_is_put_back() -> None:
    stored = "https://ann:s3cret@receiver.test/in?x=1"
    assert unmask_url(with_masked_user(stored), stored) == stored
    assert unmask_url("https://receiver.test/in?x=1", stored) == "https://receiver.test/in?x=1"
    assert unmask_url("vazio", None) == "vazio"


@pytest.mark.parametrize("stored", [None, "https://receiver.test/", "https://ann:s3cret@other.test/in"])
def test_a_masked_user_of_another_url_is_refused(stored: str | None) -> None:
    with pytest.raises(Invalid, match="url: user and password are masked"):
        unmask_url("https://********@receiver.test/in", stored)


MORE = [EventKind(name=f"KIND_{number}", meaning="…") for number in range(10)]


def test_an_answer_does_not_outgrow_its_request() -> None:
    many = {f"x{number}": 1 for number in range(MAX_SENTENCES + 2)}
    _, warnings = parse_registration({"url": URL, **many}, CATALOG)
    assert len(warnings) == MAX_SENTENCES + 1
    assert warnings[-1] == "2 further messages were omitted."
    with pytest.raises(Invalid) as caught:
        parse_registration({"url": URL, "plugins": many}, CATALOG)
    assert caught.value.messages == ("plugins has 102 plugins; at most 100 are allowed.",)


def test_a_list_of_wrong_items_is_not_checked_to_its_end() -> None:
    # A suggestion for each of them would block other requests for seconds.
    for count, cut in ((MAX_BAD_ITEMS, False), (MAX_BAD_ITEMS + 1, True)):
        with pytest.raises(Invalid) as caught:
            parse_registration({"url": URL, "events": ["NOPE"] * count}, Catalog([*CATALOG, *MORE]))
        assert len(caught.value.messages) == MAX_BAD_ITEMS + cut
        assert caught.value.messages[-1].startswith("The items after events[19]") is cut


PRIVATE_KEY = make_secret(Signature.V1A)
NO_PRIVATE_KEY = (
    "secret must be whsk_ followed by the base64 of 64 bytes: an ed25519 seed and its public key."
)


@pytest.mark.parametrize("more", [{}, {"signature": "v1a"}, {"signature": None}])
def test_an_ed25519_key_is_a_secret(more: dict[str, Any]) -> None:
    assert change_of({"url": URL, "secret": PRIVATE_KEY, **more}).secret == Secret(PRIVATE_KEY)


@pytest.mark.parametrize(
    "secret",
    [
        "whsk_",
        PRIVATE_KEY[:-8],
        "whsk_" + base64.b64encode(bytes(64)).decode(),
        "whsk_" + base64.b64encode(bytes(32)).decode(),
        "whsk_" + "é" * 86,
    ],
    ids=["empty", "cut off", "another public key", "a seed alone", "no base64"],
)
def test_malformed_ed25519_keys_are_refused(secret: str) -> None:
    assert problems_of({"url": URL, "secret": secret}) == (NO_PRIVATE_KEY,)


@pytest.mark.parametrize("signature", list(Signature))
def test_the_signature_can_be_chosen(signature: Signature) -> None:
    change = change_of({"url": URL, "webhook": {"signature": signature.value, "url": URL}})
    assert (change.signature, change.secret) == (signature, msgspec.UNSET)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"signature": "v2"}, "signature must be"),
        ({"signature": 1}, "signature must be"),
        (
            {"signature": "v1", "secret": PRIVATE_KEY},
            "signature is v1, but the secret is not: send one that starts with whsec_.",
        ),
        (
            {"signature": "v1a", "secret": "whsec_" + "A" * 32},
            "signature is v1a, but the secret is not: send one that starts with whsk_.",
        ),
    ],
)
def test_other_signatures_are_refused(fields: dict[str, Any], problem: str) -> None:
    (found,) = problems_of({"url": URL, **fields})
    assert found.startswith(problem)


@pytest.mark.parametrize(
    ("body", "timeout"),
    [
        ({"webhook": {"url": URL, "timeout": "2s"}, "timeout": None}, 2.0),
        ({"webhook": {"url": URL, "timeout": None}, "timeout": "2s"}, None),
        ({"webhook": {"url": URL}, "timeout": None}, None),
        ({"webhook": {"url": URL}}, msgspec.UNSET),
    ],
)
def test_a_null_counts_where_the_field_counts(body: dict[str, Any], timeout: object) -> None:
    assert change_of(body).timeout == timeout


def test_beside_a_null_a_wrong_value_is_still_wrong() -> None:
    assert problems_of({"webhook": {"url": URL, "retry": {"maxAge": "AAA"}}, "retry": None})


# Changes of some fields

NOTHING = RegistrationChange(is_set=False, url=msgspec.UNSET, enabled=msgspec.UNSET, events=msgspec.UNSET)


@pytest.mark.parametrize("body", SPELLINGS)
def test_a_patch_has_every_dialect(body: dict[str, Any]) -> None:
    without_url = {name: value for name, value in body.items() if name not in ("url", "enabled")}
    if isinstance(nested := body.get("webhook"), dict):
        without_url = {"webhook": {"byEvents": True, "base64": True, "events": nested["events"]}}
    elif nested is not None:
        del without_url["webhook"]
    wanted = msgspec.structs.replace(NOTHING, by_events=True, base64=True, events=("MESSAGES_UPSERT",))
    assert parse_registration(without_url, CATALOG, stored_enabled=True) == (wanted, [])
    if isinstance(nested, str):
        assert parse_registration({"webhook": URL}, CATALOG, stored_enabled=True)[0].url == URL


@pytest.mark.parametrize(
    "body",
    [
        *({}, {"webhook": {}}, {"webhook": None}),
        *({name: None} for name in ("url", "enabled", "events", "headers", "secret", "ordering", "plugins")),
    ],
)
def test_what_a_patch_leaves_out_or_has_as_null_stays(body: dict[str, Any]) -> None:
    assert parse_registration(body, CATALOG, stored_enabled=True) == (NOTHING, [])


def test_null_in_a_patch_brings_the_gateways_timeout_and_retry_rules_back() -> None:
    change, _ = parse_registration({"timeout": None, "retry": None}, CATALOG, stored_enabled=True)
    assert change == msgspec.structs.replace(NOTHING, timeout=None, retry=RetryOptions())


@pytest.mark.parametrize(
    ("body", "enabled", "allowed"),
    [
        ({"url": "vazio"}, True, False),
        ({"url": "vazio"}, False, True),
        ({"url": "vazio", "enabled": False}, True, True),
        ({"webhook": {"url": "vazio", "enabled": True}}, False, False),
    ],
)
def test_the_url_of_a_patch_fits_what_the_registration_will_be(
    body: dict[str, Any], enabled: bool, allowed: bool
) -> None:
    if allowed:
        assert parse_registration(body, CATALOG, stored_enabled=enabled)[0].url == "vazio"
    else:
        with pytest.raises(Invalid, match=r"^(webhook\.)?url: "):
            parse_registration(body, CATALOG, stored_enabled=enabled)


def test_a_patch_names_all_mistakes_and_unknown_fields() -> None:
    with pytest.raises(Invalid) as caught:
        parse_registration({"events": ["ODD"], "timeout": 1}, CATALOG, stored_enabled=True)
    assert [message.partition(":")[0] for message in caught.value.messages] == ["events[0]", "timeout"]
    _, warnings = parse_registration({"evnets": []}, CATALOG, stored_enabled=True)
    assert warnings == ["evnets is an unknown field; it was ignored."]


# Filters


def filter_of(*conditions: Any) -> Any:
    return change_of({"url": URL, "filter": list(conditions)}).filter


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (
            {"pointer": "/data/key/fromMe", "op": "equals", "value": False},
            Condition("/data/key/fromMe", FilterOp.EQUALS, False),
        ),
        ({"pointer": "/data", "op": "equals", "value": None}, Condition("/data", FilterOp.EQUALS, None)),
        (
            {"pointer": "/event", "op": "IN", "value": ["CALL", 1, None]},
            Condition("/event", FilterOp.IN, ("CALL", 1, None)),
        ),
        ({"pointer": "/sender", "op": "exists"}, Condition("/sender", FilterOp.EXISTS)),
        (
            {"pointer": "/instance", "op": "not_exists", "value": None},
            Condition("/instance", FilterOp.NOT_EXISTS),
        ),
        *(
            ({"pointer": "/data/a", "op": op, "value": "x"}, Condition("/data/a", wanted, "x"))
            for op, wanted in (
                ("prefix", FilterOp.PREFIX),
                ("notPrefix", FilterOp.NOT_PREFIX),
                ("not equals", FilterOp.NOT_EQUALS),
                ("not_equals", FilterOp.NOT_EQUALS),
                ("not-equals", FilterOp.NOT_EQUALS),
            )
        ),
    ],
)
def test_conditions_are_read(given: dict[str, Any], wanted: Condition) -> None:
    assert filter_of(given) == (wanted,)


CONDITION: dict[str, Any] = {"pointer": "/data/a", "op": "equals", "value": "x"}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"pointer": None}, "pointer is missing."),
        ({"pointer": 1}, "pointer must be a string, not a number."),
        ({"pointer": "data/a"}, "pointer must begin with /; write it as in /data/key/remoteJid."),
        ({"pointer": "/data/~2"}, "pointer has a ~ that is neither ~0 (for ~) nor ~1 (for /); write"),
        *(
            ({"pointer": f"/data/{sign}"}, "pointer must not contain quotation marks, backslashes or control")
            for sign in ('"', "\\", "\n")
        ),
        ({"pointer": "/key"}, "pointer must begin with /event, /instance, /sender, /date_time or /data."),
        ({"pointer": ""}, "pointer must have 1 to 512 characters, not 0."),
        ({"pointer": "/data/" + "x" * 512}, "pointer must have 1 to 512 characters, not 518."),
        ({"pointer": "/data" + "/x" * 16}, "pointer has 17 levels; at most 16 are allowed."),
        ({"op": None}, "op is missing."),
        ({"op": "like"}, "op must be one of equals, in, prefix, exists, notEquals, notIn, notPrefix, notEx"),
        ({"op": ["in"]}, "op must be a string, not a list."),
        ({"value": ["x"]}, "value must be a string, a number, true, false or null, not a list."),
        ({"value": "x" * 1025}, "value has 1,025 characters; at most 1,024 are allowed."),
        ({"value": 2**63}, "value must be between -2^63 and 2^63."),
        ({"value": float("nan")}, "value must be between -2^63 and 2^63."),
        ({"op": "in"}, "value must be a list, not a string."),
        ({"op": "in", "value": []}, "value is empty; name at least one value."),
        ({"op": "in", "value": ["x"] * 501}, "value has 501 items; at most 500 are allowed."),
        ({"op": "notIn", "value": ["x", {}]}, "value[1] must be a string, a number, true, false or null"),
        ({"op": "prefix", "value": 1}, "value must be a string, not a number."),
        ({"op": "prefix", "value": ""}, "value must have 1 to 1,024 characters, not 0."),
        ({"op": "exists"}, "value means nothing to exists: leave it out. For the opposite, use notExists."),
        ({"op": "notExists", "value": False}, "value means nothing to notExists: leave it out. For the oppo"),
    ],
)
def test_a_wrong_condition_is_named_with_its_place(change: dict[str, Any], problem: str) -> None:
    conditions = [CONDITION, CONDITION | change]
    for body, where in (
        ({"url": URL, "filter": conditions}, ""),
        ({"webhook": {"url": URL, "filter": conditions}}, "webhook."),
    ):
        (message,) = problems_of(body)
        assert message.startswith(f"{where}filter[1].{problem}")


def test_a_filter_has_limits() -> None:
    assert problems_of({"url": URL, "filter": {}}) == ("filter must be a list, not an object.",)
    assert problems_of({"url": URL, "filter": [5]}) == ("filter[0] must be an object, not a number.",)
    assert len(filter_of(*[CONDITION] * 20)) == 20
    (message,) = problems_of({"url": URL, "filter": [CONDITION] * 21})
    assert message == "filter has 21 items; at most 20 are allowed."
    (message,) = problems_of({"url": URL, "filter": [CONDITION | {"op": "in", "value": ["x" * 1000] * 40}]})
    assert message.startswith("filter has 40,")
    missing = [{name: value for name, value in CONDITION.items() if name != "value"}]
    assert problems_of({"url": URL, "filter": missing}) == ("filter[0].value is missing.",)


def test_null_keeps_the_filter_and_an_empty_list_removes_it() -> None:
    assert change_of({"url": URL, "filter": None}).filter is msgspec.UNSET
    assert change_of({"url": URL, "filter": []}).filter == ()


def test_an_unknown_field_of_a_condition_gets_a_warning() -> None:
    _, warnings = parse_registration({"url": URL, "filter": [CONDITION | {"odd": 1}]}, CATALOG)
    assert warnings == ["filter[0].odd is an unknown field; it was ignored."]
