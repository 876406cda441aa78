"""Typed settings: every type, every report, and the default for each mistake."""

from typing import Any, Literal

import pytest

from tests.public.config import DeliverySettings, Settings, TagLimits, known_keys, read_settings, wanted
from tests.public.kernel import Duration, Size


def read(raw: Any) -> tuple[Settings, list[tuple[str, str]]]:
    reports: list[tuple[str, str]] = []
    settings = read_settings(raw, lambda path, sentence: reports.append((path, sentence)))
    return settings, reports


@pytest.mark.parametrize("raw", [None, {}, {"server": None}, {"server": {}, "log": None}])
def test_nothing_gives_the_defaults(raw: Any) -> None:
    assert read(raw) == (Settings(), [])


def test_every_type_is_read() -> None:
    settings, reports = read(
        {
            "server": {"bind": ["a:1", "b:2"], "public_url": "https://a", "max_body": "2MiB"},
            "instances": {"auto_create": False},
            "events": {"validate": "strict"},
            "delivery": {"schedule": ["1s", "200ms", 0], "jitter": 1, "lane_buffer": 5},
            "plugins": {"options": {"simulator": {"rate": 5}}},
            "global_webhooks": [{"url": "https://a"}],
        }
    )
    assert reports == []
    assert settings.server.bind == ("a:1", "b:2")
    assert settings.server.max_body == 2 * 2**20
    assert type(settings.server.max_body) is Size
    assert settings.instances.auto_create is False
    assert settings.delivery.schedule == (1.0, 0.2, 0.0)
    assert type(settings.delivery.schedule[0]) is Duration
    assert settings.delivery.jitter == 1.0
    assert settings.plugins.options == {"simulator": {"rate": 5}}
    assert settings.global_webhooks == ({"url": "https://a"},)


def test_a_mapping_without_keys_has_its_default() -> None:
    raw = {"plugins": {"options": None}, "limits": {"tags": None}, "auth": {"users": None}}
    assert read_settings(raw, lambda *problem: pytest.fail(str(problem))) == Settings()


@pytest.mark.parametrize(
    ("raw", "path", "sentence"),
    [
        ([], "", "expected a mapping of keys, got a list."),
        ("text", "", "expected a mapping of keys, got 'text'."),
        ({"server": 5}, "server", "expected a mapping of keys, got 5."),
        ({"server": {"bind": "a:1"}}, "server.bind", "expected a list, each item text, got 'a:1'."),
        ({"server": {"bind": None}}, "server.bind", "expected a list, each item text, got null."),
        ({"global_webhooks": [None]}, "global_webhooks[0]", "expected a mapping, got null."),
        (
            {"server": {"bind": ["a", 5]}},
            "server.bind[1]",
            "expected text, got a number, true, false or null: write it in quotes.",
        ),
        (
            {"storage": {"path": None}},
            "storage.path",
            "expected text, got a number, true, false or null: write it in quotes.",
        ),
        ({"storage": {"path": ["x"]}}, "storage.path", "expected text, got a list."),
        ({"storage": {"path": {}}}, "storage.path", "expected text, got a mapping."),
        ({"instances": {"auto_create": "no"}}, "instances.auto_create", "expected true or false, got 'no'."),
        ({"instances": {"auto_create": 1}}, "instances.auto_create", "expected true or false, got 1."),
        ({"delivery": {"lane_buffer": True}}, "delivery.lane_buffer", "expected a whole number, got true."),
        ({"delivery": {"lane_buffer": 1.5}}, "delivery.lane_buffer", "expected a whole number, got 1.5."),
        ({"delivery": {"jitter": False}}, "delivery.jitter", "expected a number, got false."),
        (
            {"delivery": {"timeout": 5}},
            "delivery.timeout",
            "expected a duration such as 200ms, 5s, 10m, 1h or 3d, got 5.",
        ),
        (
            {"server": {"max_body": "1.5B"}},
            "server.max_body",
            "expected a size such as 512B, 64KiB or 1MiB, got '1.5B'.",
        ),
        ({"log": {"format": "xml"}}, "log.format", "expected auto, text or json, got 'xml'."),
        ({"plugins": {"options": []}}, "plugins.options", "expected a mapping, got a list."),
        (
            {"global_webhooks": ["https://a"]},
            "global_webhooks[0]",
            "expected a mapping, got 'https://a'.",
        ),
        ({"limits": {"tags": []}}, "limits.tags", "expected a mapping, got a list."),
        ({"auth": {"users": "ana"}}, "auth.users", "expected a mapping of names to text, got 'ana'."),
        (
            {"operations": {"headers": {"x-team": 5}}},
            "operations.headers.x-team",
            "expected text, got a number, true, false or null: write it in quotes.",
        ),
        ({"storge": {}}, "storge", "this key is unknown. Did you mean storage?"),
        ({"server": {"bnd": 1}}, "server.bnd", "this key is unknown. Did you mean server.bind?"),
        ({"timeout": "5s"}, "timeout", "this key is unknown here. Did you mean delivery.timeout?"),
        ({"log": {"path": "x"}}, "log.path", "this key is unknown here. Did you mean storage.path?"),
        (
            {"instances": {"zzz": 1}},
            "instances.zzz",
            "this key is unknown. Known here: auto_create, integrations, quiet_after.",
        ),
    ],
)
def test_a_mistake_is_reported_and_the_default_stays(raw: Any, path: str, sentence: str) -> None:
    assert read(raw) == (Settings(), [(path, sentence)])


def test_limits_of_tags_are_sections_with_names_of_their_own() -> None:
    settings, reports = read(
        {"limits": {"tags": {"tenant": {"bytes": "1MiB", "rate": "20/s"}, "plan": None}}}
    )
    assert reports == []
    assert settings.limits.tags["tenant"] == TagLimits(bytes=Size(2**20), rate="20/s")
    assert settings.limits.tags["plan"] == TagLimits()
    for wrong, path, sentence in (
        ({"deliverys": 5}, "tenant.deliverys", "Did you mean limits.tags.tenant.deliveries?"),
        ({"bytes": 5}, "tenant.bytes", "expected a size"),
        (5, "tenant", "expected a mapping of keys"),
    ):
        ((where, said),) = read({"limits": {"tags": {"tenant": wrong}}})[1]
        assert where == f"limits.tags.{path}"
        assert sentence in said


def test_a_number_in_the_place_of_a_key_is_never_shown() -> None:
    _, reports = read({"auth": {"global_key": 123456789}})
    assert "123456789" not in str(reports)
    assert reports[0][1].endswith("write it in quotes.")


def test_a_long_text_is_cut() -> None:
    _, reports = read({"instances": {"auto_create": "x" * 1000}})
    assert reports[0][1] == f"expected true or false, got '{'x' * 60}…'."


def test_everything_wrong_is_reported_and_everything_right_is_kept() -> None:
    settings, reports = read(
        {
            "delivery": {"schedule": ["5s", "nope", 7], "timeout": "3s", "typo": 1},
            "log": {"level": "loud", "format": "json"},
        }
    )
    assert [path for path, _ in reports] == [
        "delivery.typo",
        "delivery.schedule[1]",
        "delivery.schedule[2]",
        "log.level",
    ]
    assert settings.delivery.timeout == 3.0
    assert settings.delivery.schedule == DeliverySettings().schedule
    assert settings.log.format == "json"


def test_known_keys_lists_every_key_with_type_and_default() -> None:
    keys = {key.path: key for key in known_keys()}
    assert keys["server.bind"].default == ("127.0.0.1:8080",)
    assert keys["plugins.options"].default == {}
    assert keys["global_webhooks"].default == ()
    assert keys["log.format"].kind == Literal["auto", "text", "json"]
    assert "server" not in keys
    assert len(keys) == len(list(known_keys()))


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (str, "text"),
        (str | None, "text or null"),
        (tuple[Duration, ...], "a list, each item a duration such as 200ms, 5s, 10m, 1h or 3d"),
        (Literal["a", "b"], "a or b"),
        (dict[str, Any], "a mapping"),
    ],
)
def test_wanted_describes_a_type(kind: Any, words: str) -> None:
    assert wanted(kind) == words
