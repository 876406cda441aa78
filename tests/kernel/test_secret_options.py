from typing import Any

import pytest

from hookgw import Invalid
from tests.public.kernel import MASK, SecretOptions

OPTIONS = SecretOptions({"crm": frozenset({"token", "login"}), "open": frozenset()})


def test_only_secrets_are_masked() -> None:
    blocks = {"crm": {"token": "t0ken", "login": {"user": "ann"}, "url": "u"}, "open": {"token": "t0ken"}}
    masked = {"crm": {"token": MASK, "login": MASK, "url": "u"}, "open": {"token": "t0ken"}}
    assert OPTIONS.masked(blocks) == masked
    assert OPTIONS.unmasked(masked, blocks) == blocks


@pytest.mark.parametrize("empty", [None, ""])
def test_an_empty_secret_is_shown(empty: object) -> None:
    assert OPTIONS.masked({"crm": {"token": empty}}) == {"crm": {"token": empty}}


def test_everything_of_an_unknown_plugin_is_masked() -> None:
    assert OPTIONS.masked({"gone": {"a": 1, "b": []}}) == {"gone": {"a": MASK, "b": MASK}}


def test_a_new_value_replaces_the_stored_one() -> None:
    assert OPTIONS.unmasked({"crm": {"token": "new"}}, {"crm": {"token": "old"}}) == {"crm": {"token": "new"}}
    assert OPTIONS.unmasked({"crm": {"url": MASK}}, {}) == {"crm": {"url": MASK}}


def test_each_mask_without_a_stored_value_is_named() -> None:
    with pytest.raises(Invalid) as caught:
        OPTIONS.unmasked({"crm": {"token": MASK, "login": MASK}}, {"crm": {"url": "u"}})
    assert caught.value.messages == (
        "plugins.crm.token is masked, but no value is stored: send one.",
        "plugins.crm.login is masked, but no value is stored: send one.",
    )


class Odd(str):
    __slots__ = ()

    def __len__(self) -> int:
        raise AssertionError


@pytest.mark.parametrize(
    ("blocks", "values"),
    [
        (
            {"crm": {"token": "a", "login": {"user": "b", "more": ["c", {"d": "e"}], "n": 5}, "url": "u"}},
            "abce",
        ),
        ({"open": {"token": "a"}}, ""),
        ({"gone": {"x": "a"}}, "a"),
        # A plugin can change the options of a registration.
        ({"crm": "a", "open": None, "gone": {"x": Odd("a")}}, ""),
    ],
)
def test_the_texts_in_secrets(blocks: dict[str, Any], values: str) -> None:
    assert OPTIONS.values(blocks) == set(values)
