import json
from collections.abc import Callable
from types import ModuleType
from typing import Any

import msgspec
import pytest

from hookgw import Event, Invalid, Registration
from hookgw.connectors import Recent
from tests.public.kernel import PluginFailed
from tests.public.plugins import Hooks

Registered = Callable[..., Registration]
ANA = "5511988887777@s.whatsapp.net"
GROUP = "120363040000000000@g.us"


def message(chat: str = ANA, *, from_me: bool = False, kind: str = "conversation", sender: str = "") -> Any:
    key: dict[str, Any] = {"remoteJid": chat, "fromMe": from_me, "id": "A"}
    if sender:
        key["participant"] = sender
    return {"key": key, "messageType": kind}


def event_of(data: Any) -> Event:
    return Event(
        id="msg_1", kind="MESSAGES_UPSERT", instance="loja1", data_json=json.dumps(data).encode(), time=1.0
    )


CASES: list[tuple[dict[str, Any], Any, bool]] = [
    ({}, message(), True),
    ({}, message("status@broadcast"), True),
    ({"from_me": False}, message(), True),
    ({"from_me": False}, message(from_me=True), False),
    ({"from_me": True}, message(), False),
    ({"from_me": True}, message(from_me=True), True),
    ({"from_me": None}, message(from_me=True), True),
    ({"groups": False}, message(), True),
    ({"groups": False}, message(GROUP), False),
    ({"groups": True}, message(GROUP), True),
    ({"status_broadcasts": False}, message("status@broadcast"), False),
    ({"status_broadcasts": False}, message(), True),
    ({"allow": [ANA]}, message(), True),
    ({"allow": ["5521*"]}, message(), False),
    ({"allow": ["5521*", "5511*@s.whatsapp.net"]}, message(), True),
    ({"allow": ["5511"]}, message(), False),
    ({"allow": ["*7777@s.whatsapp.ne?"]}, message(), True),
    ({"allow": ["551[12]*"]}, message(), True),
    ({"allow": ["5511*"]}, message("status@broadcast"), False),
    ({"allow": ["5511*"]}, message(GROUP, sender=ANA), True),
    ({"allow": ["5511*"]}, message(GROUP, sender="5521@s.whatsapp.net"), False),
    ({"deny": ["5511*"]}, message(), False),
    ({"deny": ["5511*"]}, message(GROUP, sender=ANA), False),
    ({"deny": ["5521*"]}, message(), True),
    ({"allow": ["*"], "deny": [ANA]}, message(), False),
    ({"deny": ["a.b"]}, message("axb"), True),
    ({"message_types": ["imageMessage"]}, message(), False),
    ({"message_types": ["imageMessage", "conversation"]}, message(), True),
    ({"from_me": False, "message_types": ["conversation"]}, message(from_me=True), False),
    # what other kinds of events look like
    ({"from_me": True}, {"keyId": "A", "remoteJid": ANA, "fromMe": False}, False),
    ({"deny": [ANA]}, {"keyId": "A", "remoteJid": ANA, "fromMe": False}, False),
    ({"message_types": ["imageMessage"]}, {"keyId": "A", "remoteJid": ANA, "fromMe": True}, True),
    ({"from_me": True, "allow": ["x"], "groups": False}, {"instance": "loja1", "state": "open"}, True),
    ({"from_me": True, "allow": ["x"]}, [{"remoteJid": ANA}], False),
    ({"allow": [ANA]}, [{"remoteJid": ANA}, {"remoteJid": "5521@s.whatsapp.net"}], True),
    ({"deny": ["5511*"]}, [{"remoteJid": ANA}, {"remoteJid": "5521@s.whatsapp.net"}], True),
    ({"deny": ["55*"]}, [{"remoteJid": ANA}, {"remoteJid": "5521@s.whatsapp.net"}], False),
    ({"deny": ["55*"]}, [], True),
    # one person has several names, in patterns and in payloads
    ({"deny": [ANA]}, message("5511988887777:90@s.whatsapp.net"), False),
    ({"deny": [ANA]}, message("5511988887777@c.us"), False),
    ({"deny": ["5511988887777@c.us"]}, message(), False),
    ({"deny": ["5511*@c.us"]}, message(), False),
    ({"deny": ["5511988887777"]}, message(), False),
    ({"allow": ["5511988887777"]}, message("5511988887777:90@s.whatsapp.net"), True),
    ({"allow": ["+5511988887777"]}, message(), True),
    ({"allow": ["+55 (11) 98888-7777"]}, message(), True),  # as phones show it
    ({"deny": ["55 11 98888-7777"]}, message(), False),
    ({"deny": ["-5511988887777"]}, message(), True),  # a group on Telegram
    ({"allow": ["5511988887777"]}, message("5511988887778@s.whatsapp.net"), False),
    ({"allow": ["123456789"]}, message("123456789"), True),
    ({"deny": ["5511988887777:90@s.whatsapp.net"]}, message(), False),
    ({"deny": [ANA]}, {"key": {"remoteJid": "7@lid", "remoteJidAlt": ANA}}, False),
    ({"deny": ["7@lid"]}, {"key": {"remoteJid": ANA, "remoteJidAlt": "7@lid"}}, False),
    ({"deny": [ANA]}, {"key": {"remoteJid": GROUP, "participant": "7@lid", "participantAlt": ANA}}, False),
    ({"deny": [ANA]}, {"keyId": "A", "remoteJid": "7@lid", "remoteJidAlt": ANA}, False),
    ({"allow": [ANA]}, {"key": {"remoteJid": "7@lid", "fromMe": False, "senderPn": ANA}}, True),
    ({"allow": [ANA]}, {"key": {"remoteJid": GROUP, "participant": "7@lid", "participantPn": ANA}}, True),
    ({"deny": ["7@lid"]}, {"key": {"remoteJid": ANA, "senderLid": "7@lid"}}, False),
    ({"deny": ["7@lid"]}, {"key": {"remoteJid": ANA, "previousRemoteJid": "7@lid"}}, False),
    ({"deny": ["7@lid"]}, {"key": {"remoteJid": ANA, "remoteJidLid": "7@lid"}}, False),
    (
        {"deny": ["7@lid"]},
        {"key": {"remoteJid": GROUP, "participant": ANA, "participantLid": "7@lid"}},
        False,
    ),
    ({"deny": ["7@lid"]}, {"keyId": "A", "remoteJid": ANA, "remoteJidLid": "7@lid"}, False),
    ({"deny": [ANA]}, {"key": {"remoteJid": "8@lid", "fromMe": True, "senderPn": ANA}}, True),
    ({"deny": [ANA]}, {"id": ANA, "presences": {ANA: {}}}, False),
    ({"deny": [ANA]}, {"chatId": "5511988887777@c.us", "labelId": "6"}, False),
    ({"deny": [ANA]}, {"id": "C", "chatId": "7@lid", "callerPn": ANA}, False),
    ({"from_me": True, "allow": ["x"]}, None, True),
    ({"from_me": True, "allow": ["x"]}, {"key": {"remoteJid": None, "fromMe": "yes"}}, True),
    ({"allow": ["x"]}, {"key": "A", "remoteJid": ANA}, False),
    ({"message_types": ["x"]}, {"key": {"remoteJid": ANA}, "messageType": None}, True),
    # no JID has more than 255 characters, and no wildcard matches a longer text
    ({"deny": ["a*"]}, message("a" * 255), False),
    ({"deny": ["a*"]}, message("a" * 256), True),
    ({"allow": ["*"]}, message("a" * 900_000), False),
    ({"allow": ["*"]}, message("a" * 900_000, sender=ANA), True),
    ({"deny": ["[a]", "b"]}, message("b"), False),
]


@pytest.mark.parametrize(("options", "data", "passes"), CASES)
async def test_filter(
    hooks: Hooks, registered: Registered, options: dict[str, Any], data: Any, passes: bool
) -> None:
    registration = registered(message_filters=options)
    hooks.check_registration(registration)
    assert await hooks.filter(event_of(data), registration) is passes


async def test_without_a_block_the_payload_is_not_decoded(hooks: Hooks, registered: Registered) -> None:
    event = event_of(message())
    assert await hooks.filter(event, registered())
    assert "data" not in vars(event)


async def test_the_rest_of_the_payload_is_not_decoded(hooks: Hooks, registered: Registered) -> None:
    # It stays with the event while a lane holds it, and can be ten times as large as its text.
    event = event_of(message() | {"message": [{}] * 1000})
    assert await hooks.filter(event, registered(message_filters={"deny": ["x"]}))
    assert "data" not in vars(event)


async def test_stored_options_beyond_the_limits_fail_the_delivery(
    hooks: Hooks, registered: Registered
) -> None:
    # Options of an earlier version: a filter that ignored a part of them would let through what it denies.
    registration = registered(message_filters={"deny": ["*" + "a*" * 100] * 1000})
    with pytest.raises(PluginFailed, match="at most 100 are allowed"):
        await hooks.filter(event_of(message()), registration)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"form_me": True}, "Object contains unknown field `form_me`"),
        ({"from_me": "yes"}, "`$.from_me`"),
        ({"groups": 1}, "`$.groups`"),
        ({"status_broadcasts": None}, "`$.status_broadcasts`"),
        ({"allow": ANA}, "`$.allow`"),
        ({"allow": [1]}, "`$.allow[0]`"),
        ({"deny": [""]}, "`$.deny[0]`"),
        ({"deny": ["x" * 256]}, "`$.deny[0]`"),
        ({"deny": ["x"] * 1001}, "`$.deny`"),
        ({"message_types": "conversation"}, "`$.message_types`"),
        ({"allow": ["?"] * 101}, "allow has 101 wildcards; at most 100 are allowed"),
        ({"deny": ["*a*b*c*"]}, "deny: '*a*b*c*' has more than 3 stars"),
        ({"deny": ["*" + "a" * 250] * 20}, "deny: the wildcards have more than 4,096 characters together"),
    ],
)
def test_wrong_options_are_named(
    hooks: Hooks, registered: Registered, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(Invalid) as caught:
        hooks.check_registration(registered(message_filters=options))
    assert str(caught.value).startswith("webhook.plugins.message_filters: ")
    assert said in str(caught.value)


def test_options_at_the_limits_are_accepted(hooks: Hooks, registered: Registered) -> None:
    options = {"allow": ["x" * 255, *["*a*b*"] * 100], "deny": ["x"] * 1000}
    hooks.check_registration(registered(message_filters=options))


async def test_a_changed_registration_is_compiled_again(hooks: Hooks, registered: Registered) -> None:
    old = registered(message_filters={"from_me": False})
    new = msgspec.structs.replace(old, plugins={"message_filters": {"from_me": True}}, updated_at=2.0)
    event = event_of(message())
    assert [await hooks.filter(event, which) for which in (old, new, old)] == [True, False, True]


async def test_compiled_filters_are_cached_up_to_a_limit(
    hooks: Hooks,
    registered: Registered,
    module_of: Callable[[str], ModuleType],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = module_of("message_filters")
    cache = Recent[str, Any](2)
    monkeypatch.setattr(module, "_filters", cache)
    first, second, third = (
        msgspec.structs.replace(registered(message_filters={}), id=f"reg_{number}") for number in range(3)
    )
    for registration in (first, second, first):
        await hooks.filter(event_of(message()), registration)
    kept = cache.get("reg_0")
    await hooks.filter(event_of(message()), third)
    assert cache.get("reg_1") is None
    assert cache.get("reg_2") is not None
    assert cache.get("reg_0") is kept
