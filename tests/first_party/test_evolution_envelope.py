import base64
import hashlib
import hmac
import json
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from hookgw import Event, Invalid, Outgoing, Registration
from tests.public.kernel import ConfigError, parse_rfc3339
from tests.public.plugins import Hooks

Registered = Callable[..., Registration]
Payload = Callable[[str], tuple[dict[str, Any], Event]]
NAMES = sorted(path.stem for path in (Path(__file__).parents[1] / "payloads").glob("*.json"))
KEYS = ["event", "instance", "data", "destination", "date_time", "sender", "server_url", "apikey"]


def attempt(**headers: str) -> Outgoing:
    return Outgoing(url="https://app.example/hook", body=b"{}", headers=headers, attempt=1)


@pytest.mark.parametrize("name", NAMES)
async def test_the_body_equals_the_recorded_envelope(
    hooks: Hooks, registered: Registered, payload: Payload, name: str
) -> None:
    envelope, event = payload(name)
    body = await hooks.encode(event, registered(evolution_envelope={}))
    assert body is not None
    found = json.loads(body)
    assert found == envelope
    assert json.dumps(found) == json.dumps(envelope)
    assert list(found) == KEYS
    assert event.data_json in body


async def test_unknown_fields_are_null(hooks: Hooks, registered: Registered) -> None:
    event = Event(id="msg_1", kind="CALL", instance="loja1", data_json=b"null", time=0.0)
    found = json.loads(await hooks.encode(event, registered(evolution_envelope={})) or b"")
    assert list(found) == KEYS
    assert (found["data"], found["sender"], found["server_url"], found["apikey"]) == (None, None, None, None)


@pytest.mark.parametrize(
    ("kind", "dotted"),
    [
        ("GROUP_PARTICIPANTS_UPDATE", "group-participants.update"),
        ("SEND_MESSAGE", "send.message"),
        ("ORDER_WAS_PAID", "order.was-paid"),
    ],
)
async def test_kinds_have_their_dotted_names(
    hooks: Hooks, registered: Registered, kind: str, dotted: str
) -> None:
    event = Event(id="msg_1", kind=kind, instance="loja1", data_json=b"{}", time=0.0)
    registration = registered(evolution_envelope={})
    request = attempt()
    await hooks.prepare(request, event, registration)
    assert json.loads(await hooks.encode(event, registration) or b"")["event"] == dotted
    assert request.headers["x-event-type"] == dotted


async def test_without_a_block_nothing_changes(
    hooks: Hooks, registered: Registered, payload: Payload
) -> None:
    _, event = payload("send-message")
    request = attempt(a="1")
    await hooks.prepare(request, event, registered())
    assert await hooks.encode(event, registered()) is None
    assert request.headers == {"a": "1"}


async def test_the_option_all_and_its_exception(
    hooks: Hooks, registered: Registered, payload: Payload
) -> None:
    _, event = payload("send-message")
    hooks.configure({"evolution_envelope": {"all": True, "server_url": "https://other.example"}})
    assert await hooks.encode(event, registered()) is not None
    assert await hooks.encode(event, registered(evolution_envelope={"enabled": False})) is None


async def test_the_options_fill_in_server_url_and_apikey(hooks: Hooks, registered: Registered) -> None:
    hooks.configure({"evolution_envelope": {"server_url": "https://gateway.example"}})
    event = Event(id="msg_1", kind="CALL", instance="loja1", data_json=b"{}", time=0.0)
    body = await hooks.encode(event, registered(evolution_envelope={"apikey": "B6D9"}))
    found = json.loads(body or b"")
    assert (found["server_url"], found["apikey"]) == ("https://gateway.example", "B6D9")


async def test_the_headers_of_an_attempt(hooks: Hooks, registered: Registered, payload: Payload) -> None:
    _, event = payload("send-message")
    request = attempt(a="1")
    before = time.time()
    await hooks.prepare(request, event, registered(evolution_envelope={}))
    at = parse_rfc3339(request.headers.pop("x-timestamp"))
    assert before - 0.001 <= at <= time.time()
    assert request.headers == {"a": "1", "x-instance-name": "loja1", "x-event-type": "send.message"}


def unpacked(token: str, key: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Check the signature of a token, and return its header and claims."""
    signed, _, signature = token.rpartition(".")
    padded = [part + "=" * (-len(part) % 4) for part in (*signed.split("."), signature)]
    head, claims, found = (base64.b64decode(part, altchars=b"-_", validate=True) for part in padded)
    assert found == hmac.new(key.encode(), signed.encode(), hashlib.sha256).digest()
    assert "=" not in token
    return json.loads(head), json.loads(claims)


@pytest.mark.parametrize("plugins", [{"evolution_envelope": {}}, {}])
async def test_jwt_key_is_replaced_by_a_token(
    hooks: Hooks, registered: Registered, payload: Payload, plugins: dict[str, Any]
) -> None:
    _, event = payload("send-message")
    request = attempt(jwt_key="sécret", authorization="old")
    before = int(time.time())
    await hooks.prepare(request, event, registered(**plugins))
    assert "jwt_key" not in request.headers
    scheme, _, token = request.headers["authorization"].partition(" ")
    head, claims = unpacked(token, "sécret")
    assert scheme == "Bearer"
    assert head == {"alg": "HS256", "typ": "JWT"}
    assert before <= claims["iat"] <= time.time()
    assert claims == {
        "iat": claims["iat"],
        "exp": claims["iat"] + 600,
        "app": "evolution",
        "action": "webhook",
    }


def test_each_token_has_its_own_time(module_of: Callable[[str], ModuleType]) -> None:
    mint = module_of("evolution_envelope").mint_token
    claims = [unpacked(mint("key", now), "key")[1]["iat"] for now in (1_700_000_000.9, 1_700_000_005.0)]
    assert claims == [1_700_000_000, 1_700_000_005]


@pytest.mark.parametrize("block", [{"al": True}, {"all": "yes"}, {"server_url": 1}])
def test_wrong_options_stop_the_start(hooks: Hooks, block: Any) -> None:
    with pytest.raises(ConfigError, match=r"plugins\.options\.evolution_envelope: "):
        hooks.configure({"evolution_envelope": block})


@pytest.mark.parametrize("block", [True, {"enable": True}, {"enabled": "no"}, {"apikey": 1}])
def test_wrong_options_of_a_registration(hooks: Hooks, registered: Registered, block: Any) -> None:
    with pytest.raises(Invalid, match=r"webhook\.plugins\.evolution_envelope: "):
        hooks.check_registration(registered(evolution_envelope=block))


@pytest.mark.parametrize("block", [{}, {"enabled": False}, {"apikey": "B6D9"}])
def test_valid_options_of_a_registration(hooks: Hooks, registered: Registered, block: Any) -> None:
    hooks.check_registration(registered(evolution_envelope=block))
