from typing import Any

import httpx
import msgspec
import pytest

from hookgw import Gateway
from hookgw.testing import Receiver
from tests.api.test_app import shape_of
from tests.public.config import InstancesSettings, Settings
from tests.public.kernel import MASK

URL = "https://example.com/hook"


async def set_webhook(client: httpx.AsyncClient, path: str = "loja1", **fields: Any) -> dict[str, Any]:
    response = await client.post(f"/webhook/set/{path}", json={"url": URL} | fields)
    assert response.status_code == 201, response.text
    answer: dict[str, Any] = response.json()
    return answer


async def test_set_answers_the_whole_registration(client: httpx.AsyncClient, gateway: Gateway) -> None:
    answer = await set_webhook(
        client, events=["messages.upsert"], headers={"Authorization": "Bearer x"}, odd=1
    )
    assert list(answer) == [
        *(
            "id",
            "instance",
            "label",
            "url",
            "enabled",
            "events",
            "webhookByEvents",
            "webhookBase64",
            "headers",
            "signature",
        ),
        *(
            "ordering",
            "concurrency",
            "rate",
            "timeout",
            "retry",
            "filter",
            "plugins",
            "tls",
            "createdAt",
            "updatedAt",
            "instanceId",
        ),
        *("paused", "state", "stateReason", "warnings"),
    ]
    assert answer["events"] == ["MESSAGES_UPSERT"]
    assert answer["headers"] == {"Authorization": MASK}
    assert answer["instanceId"] == gateway.instances.get("loja1").id
    assert (answer["state"], answer["stateReason"]) == ("active", None)
    assert answer["warnings"] == ["odd is an unknown field; it was ignored."]
    assert answer["createdAt"].endswith("Z")


async def test_set_warns_of_names_that_differ_from_the_path(client: httpx.AsyncClient) -> None:
    body = {"url": "https://example.com/hook", "label": "crm", "webhook": {"instance": "loja2"}}
    answer = (await client.post("/webhook/set/loja1", json=body)).json()
    assert (answer["instance"], answer["label"]) == ("loja1", "default")
    assert answer["warnings"] == [
        "webhook.instance was ignored: the instance here is loja1.",
        "label was ignored: the label here is default. For another one, use /webhook/set/loja1/<label>.",
    ]


async def test_a_change_of_what_only_other_calls_change_gets_a_warning(client: httpx.AsyncClient) -> None:
    await set_webhook(client)
    body = {"paused": True, "state": "disabled"}
    answer = (await client.patch("/webhook/set/loja1", json=body)).json()
    assert (answer["paused"], answer["state"]) == (False, "active")
    assert answer["warnings"] == [
        "paused was ignored: use /webhook/pause/loja1/default and /webhook/resume/loja1/default.",
        "state was ignored: it follows from enabled, /webhook/pause and /webhook/resume.",
    ]


async def test_what_find_returned_comes_back_without_a_warning(client: httpx.AsyncClient) -> None:
    await set_webhook(client)
    await client.post("/webhook/pause/loja1")
    for changes in ({}, {"enabled": False}, {"enabled": True}):
        found = (await client.get("/webhook/find/loja1")).json()
        for method in ("POST", "PATCH"):
            answer = await client.request(method, "/webhook/set/loja1", json=found | changes)
            assert answer.status_code < 300
            assert answer.json()["warnings"] == []
            found = answer.json()


async def test_set_and_find_warn_of_a_url_that_is_refused_now(client: httpx.AsyncClient) -> None:
    answer = await client.post("/webhook/set/shop", json={"url": "http://10.1.2.3/hook"})
    assert answer.status_code == 201
    [warning] = answer.json()["warnings"]
    assert warning.startswith("url: The host 10.1.2.3 is blocked.")
    assert 'delivery.allow_networks: ["10.1.2.3/32"]' in warning
    # For as long as the settings are like that.
    assert (await client.get("/webhook/find/shop")).json()["warnings"] == [warning]


async def test_find_answers_what_set_stored(client: httpx.AsyncClient) -> None:
    stored = await set_webhook(
        client, timeout="2s", retry={"schedule": ["1s"], "maxAge": "1h"}, ordering="chat"
    )
    found = (await client.get("/webhook/find/loja1")).json()
    assert found == stored
    assert (found["timeout"], found["ordering"]) == ("2s", "chat")
    assert found["retry"] == {"schedule": ["1s"], "maxAge": "1h", "disableAfter": None}


async def test_no_events_means_every_kind_spelled_out(client: httpx.AsyncClient, gateway: Gateway) -> None:
    answer = await set_webhook(client, events=[])
    assert answer["events"] == [kind.name for kind in gateway.catalog if not kind.operational]


async def test_what_find_gives_can_be_sent_back(client: httpx.AsyncClient, gateway: Gateway) -> None:
    await set_webhook(client, headers={"Authorization": "Bearer x"}, events=["QRCODE_UPDATED"], timeout="3s")
    found = (await client.get("/webhook/find/loja1")).json()
    again = (await client.post("/webhook/set/loja1", json=found)).json()
    assert again | {"updatedAt": ""} == found | {"updatedAt": ""}
    stored = gateway.registrations.find("loja1")
    assert stored is not None
    assert stored.headers == {"Authorization": "Bearer x"}


@pytest.mark.parametrize("method", ["POST", "PATCH"])
async def test_every_kind_stays_every_kind_if_it_is_sent_back(
    client: httpx.AsyncClient, gateway: Gateway, method: str
) -> None:
    found = await set_webhook(client, events=[])
    again = await client.request(method, "/webhook/set/loja1", json=found)
    assert again.json()["events"] == found["events"]
    assert gateway.registrations.get("loja1").events == ()
    less = {"url": URL, "events": found["events"][1:]}
    await client.request(method, "/webhook/set/loja1", json=less)
    assert list(gateway.registrations.get("loja1").events) == less["events"]
    # Chosen one by one, they are these kinds and no others.
    await client.request(method, "/webhook/set/loja1", json={"url": URL, "events": found["events"]})
    assert list(gateway.registrations.get("loja1").events) == found["events"]


async def test_a_mask_without_a_stored_value_is_refused(client: httpx.AsyncClient) -> None:
    response = await client.post("/webhook/set/loja1", json={"url": URL, "headers": {"x": MASK}})
    assert response.status_code == 400
    assert shape_of(response) == ["headers.x is masked, but no value is stored: send one."]


async def test_set_keeps_what_is_left_out(client: httpx.AsyncClient) -> None:
    first = await set_webhook(
        client, byEvents=True, headers={"x": "y"}, events=["QRCODE_UPDATED"], enabled=False
    )
    second = await set_webhook(client)
    assert (second["id"], second["createdAt"]) == (first["id"], first["createdAt"])
    assert (second["webhookByEvents"], second["headers"]) == (True, {"x": MASK})
    assert (second["enabled"], len(second["events"]) > 1) == (True, True)


async def test_a_disabled_one_says_so(client: httpx.AsyncClient) -> None:
    answer = await set_webhook(client, url="vazio", enabled=False)
    assert (answer["url"], answer["state"]) == ("vazio", "disabled")
    assert answer["stateReason"]


async def test_a_rate_is_kept_until_it_is_ended(client: httpx.AsyncClient) -> None:
    assert (await set_webhook(client, rate="20 / S"))["rate"] == "20/s"
    assert (await set_webhook(client))["rate"] == "20/s"
    assert (await set_webhook(client, rate=""))["rate"] is None
    assert (await set_webhook(client, rate="1000/h"))["rate"] == "1000/h"
    found = (await client.get("/webhook/find/loja1")).json()
    assert (await client.post("/webhook/set/loja1", json=found)).json()["rate"] == "1000/h"
    assert (await client.request("PATCH", "/webhook/set/loja1", json={"rate": None})).json()["rate"] is None
    response = await client.post("/webhook/set/loja1", json={"url": URL, "rate": "20"})
    assert shape_of(response) == [
        "rate: expected a rate such as 20/s, 100/m or 1000/h, with a count from 1 to 999,999, got '20'."
    ]


async def test_pause_and_resume(client: httpx.AsyncClient) -> None:
    await set_webhook(client, "loja1/crm")
    paused = await client.post("/webhook/pause/loja1/crm")
    assert paused.status_code == 200
    found = (await client.get("/webhook/find/loja1/crm")).json()
    assert found == paused.json()
    assert (found["paused"], found["state"]) == (True, "paused")
    assert found["stateReason"].startswith("It was paused at 20")
    again = await client.post("/webhook/set/loja1/crm", json=found)  # what find gives can be sent back
    assert (again.json()["paused"], again.json()["warnings"]) == (True, [])
    assert (await client.post("/webhook/resume/loja1/crm")).json() == []
    found = (await client.get("/webhook/find/loja1/crm")).json()
    assert (found["paused"], found["state"], found["stateReason"]) == (False, "active", None)


async def test_a_concurrency_without_effect_gets_a_warning(client: httpx.AsyncClient) -> None:
    warning = ["concurrency has no effect with ordering url."]
    stored = (await client.post("/webhook/set/loja1", json={"url": URL, "concurrency": 4})).json()
    assert (stored["concurrency"], stored["warnings"]) == (4, warning)
    changes: list[tuple[dict[str, object], list[str]]] = [
        ({"ordering": "chat"}, []),
        ({"ordering": "url"}, warning),
        ({"concurrency": 1}, []),
    ]
    for change, warnings in changes:
        changed = await client.request("PATCH", "/webhook/set/loja1", json=change)
        assert changed.json()["warnings"] == warnings


@pytest.mark.parametrize("call", ["pause", "resume"])
async def test_a_disabled_one_cannot_be_paused_or_resumed(client: httpx.AsyncClient, call: str) -> None:
    await set_webhook(client, url="vazio", enabled=False)
    response = await client.post(f"/webhook/{call}/loja1")
    assert response.status_code == 409
    assert (await client.post(f"/webhook/{call}/loja1/none")).status_code == 404


async def test_labels_are_further_registrations(client: httpx.AsyncClient) -> None:
    default, crm = await set_webhook(client), await set_webhook(client, "loja1/crm", url=f"{URL}/crm")
    assert (default["label"], crm["label"]) == ("default", "crm")
    assert (await client.get("/webhook/find/loja1/crm")).json() == crm
    assert (await client.get("/webhook/find/loja1/default")).json() == default


async def test_an_instance_has_at_most_16(client: httpx.AsyncClient) -> None:
    for number in range(16):
        await set_webhook(client, f"loja1/{number}")
    response = await client.post("/webhook/set/loja1/17th", json={"url": URL})
    assert response.status_code == 400
    await set_webhook(client, "loja1/3", url=f"{URL}/other")


async def test_bad_fields_are_named_and_nothing_is_stored(
    client: httpx.AsyncClient, gateway: Gateway
) -> None:
    body = {"webhook": {"url": "ftp://x", "events": ["MESSAGES_UPSERT", "MESAGES_UPDATE"]}}
    response = await client.post("/webhook/set/loja1", json=body)
    assert response.status_code == 400
    first, second = shape_of(response)
    assert first.startswith("webhook.url: ")
    assert second.startswith("webhook.events[1]: ")
    assert gateway.instances.find("loja1") is None


async def test_find_without_a_registration_is_null(client: httpx.AsyncClient, gateway: Gateway) -> None:
    await gateway.instances.create("loja1")
    response = await client.get("/webhook/find/loja1")
    assert (response.status_code, response.text) == (200, "null")


@pytest.mark.parametrize(
    ("method", "call"),
    [
        *(("DELETE", "delete"), ("GET", "secret"), ("POST", "rotateSecret"), ("POST", "test")),
        *(
            ("POST", "pause"),
            ("POST", "resume"),
            ("PATCH", "set"),
            ("POST", "backfill"),
            ("DELETE", "backfill"),
        ),
    ],
)
@pytest.mark.parametrize("body", [b"", b"{"])
async def test_without_a_registration(
    method: str, call: str, body: bytes, client: httpx.AsyncClient, gateway: Gateway
) -> None:
    await gateway.instances.create("loja1")
    response = await client.request(method, f"/webhook/{call}/loja1/crm", content=body)
    assert response.status_code == 404
    assert "'crm'" in shape_of(response)[0]


class TestWithoutAutoCreate:
    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        return Settings(
            server=settings.server,
            auth=settings.auth,
            storage=settings.storage,
            instances=InstancesSettings(auto_create=False),
        )

    async def test_set_makes_no_instance(self, client: httpx.AsyncClient) -> None:
        assert (await client.post("/webhook/set/loja1", content=b"x")).status_code == 404


@pytest.mark.parametrize(
    ("method", "call", "whole"),
    [
        ("DELETE", "delete", "a deletion"),
        ("POST", "pause", "a pause"),
        ("POST", "resume", "a resume"),
        ("DELETE", "backfill", "the end of a backfill"),
        ("POST", "test", "a test"),
        ("POST", "rotateSecret", "a rotation"),
    ],
)
async def test_a_label_in_the_body_does_not_mean_the_default_registration(
    client: httpx.AsyncClient, method: str, call: str, whole: str
) -> None:
    await set_webhook(client)
    before = (await client.get("/webhook/find/loja1")).json()
    answer = await client.request(method, f"/webhook/{call}/loja1", json={"label": "crm"})
    assert answer.status_code == 400
    assert answer.json()["response"]["message"] == [f"label is not a field of {whole}."]
    assert (await client.get("/webhook/find/loja1")).json() == before


@pytest.mark.parametrize(("method", "call"), [("POST", "pause"), ("POST", "resume"), ("DELETE", "delete")])
async def test_an_empty_body_says_nothing(client: httpx.AsyncClient, method: str, call: str) -> None:
    await set_webhook(client)
    headers = {"content-type": "application/json"}
    answer = await client.request(method, f"/webhook/{call}/loja1", content=b"", headers=headers)
    assert answer.status_code == 200


async def test_delete(client: httpx.AsyncClient) -> None:
    await set_webhook(client)
    response = await client.delete("/webhook/delete/loja1")
    assert response.status_code == 200
    assert response.json() == {
        "status": "SUCCESS",
        "error": False,
        "response": {"message": "Webhook deleted"},
    }
    assert (await client.get("/webhook/find/loja1")).json() is None
    assert (await client.delete("/webhook/delete/loja1")).status_code == 404


async def test_the_secret_is_shown_and_renewed(client: httpx.AsyncClient, gateway: Gateway) -> None:
    await set_webhook(client)
    old = (await client.get("/webhook/secret/loja1")).json()["secret"]
    new = (await client.post("/webhook/rotateSecret/loja1", json={"grace": "1h"})).json()["secret"]
    assert old.startswith("whsec_")
    assert new != old
    assert (await client.get("/webhook/secret/loja1")).json() == {"secret": new}
    stored = gateway.registrations.find("loja1")
    assert stored is not None
    assert [secret.value for secret in stored.secrets_in_force(gateway.clock.wall() + 3500)] == [new, old]
    assert [secret.value for secret in stored.secrets_in_force(gateway.clock.wall() + 3700)] == [new]


async def test_the_old_secret_goes_on_for_a_day_unless_told(
    client: httpx.AsyncClient, gateway: Gateway
) -> None:
    await set_webhook(client)
    await client.post("/webhook/rotateSecret/loja1")
    stored = gateway.registrations.find("loja1")
    assert stored is not None
    assert len(stored.secrets_in_force(gateway.clock.wall() + 86_000)) == 2
    assert len(stored.secrets_in_force(gateway.clock.wall() + 86_500)) == 1


async def test_a_bad_grace_changes_nothing(client: httpx.AsyncClient) -> None:
    await set_webhook(client)
    old = (await client.get("/webhook/secret/loja1")).json()
    assert (await client.post("/webhook/rotateSecret/loja1", json={"grace": 5})).status_code == 400
    assert (await client.get("/webhook/secret/loja1")).json() == old


async def test_a_test_event_is_sent_now(client: httpx.AsyncClient, hookgw_receiver: Receiver) -> None:
    await set_webhook(client, url=hookgw_receiver.url)
    attempt = (await client.post("/webhook/test/loja1")).json()
    assert list(attempt) == ["number", "at", "duration", "outcome", "status", "error", "answer", "url"]
    assert (attempt["outcome"], attempt["status"], attempt["error"]) == ("delivered", 200, None)
    assert len(hookgw_receiver.requests) == 1


async def test_resume_without_deliveries_returns_no_lanes(client: httpx.AsyncClient) -> None:
    await set_webhook(client)
    response = await client.post("/webhook/resume/loja1")
    assert (response.status_code, response.json()) == (200, [])


async def test_resume_returns_the_lanes_of_the_registration(
    client: httpx.AsyncClient, hookgw_receiver: Receiver
) -> None:
    for label in ("default", "crm"):
        stored = await set_webhook(client, f"loja1/{label}", url=hookgw_receiver.url)
    await client.post("/event/emit/loja1", json={"event": "CALL", "data": {}})
    await hookgw_receiver.wait_for(2)
    (lane,) = (await client.post("/webhook/resume/loja1/crm")).json()
    assert (lane["registration"], lane["label"]) == (stored["id"], "crm")


async def test_user_and_password_of_the_url_are_masked_and_can_be_sent_back(
    client: httpx.AsyncClient, gateway: Gateway
) -> None:
    url = "https://ann:s3cret@example.com/hook"
    answer = await set_webhook(client, url=url)
    assert answer["url"] == "https://********@example.com/hook"
    again = await set_webhook(client, url=answer["url"], events=["MESSAGES_UPSERT"])
    assert again["url"] == answer["url"]
    stored = gateway.registrations.find("loja1")
    assert stored is not None
    assert (stored.url, stored.address) == (url, "https://example.com/hook")
    other = await client.post("/webhook/set/loja1", json={"url": "https://********@other.test/"})
    assert other.status_code == 400
    assert "masked" in other.json()["response"]["message"][0]


APIKEY = "planted-api-key-7"


async def test_secret_options_of_plugins_are_masked_and_can_be_sent_back(
    client: httpx.AsyncClient, gateway: Gateway
) -> None:
    shown = {"evolution_envelope": {"enabled": True, "apikey": MASK}}
    answer = await set_webhook(client, plugins={"evolution_envelope": {"enabled": True, "apikey": APIKEY}})
    assert answer["plugins"] == shown
    assert (await client.get("/webhook/find/loja1")).json()["plugins"] == shown
    again = await set_webhook(client, **{name: answer[name] for name in ("url", "plugins", "headers")})
    assert again["plugins"] == shown
    stored = gateway.registrations.find("loja1")
    assert stored is not None
    assert stored.plugins["evolution_envelope"]["apikey"] == APIKEY


async def test_a_masked_option_without_a_stored_value_is_refused(client: httpx.AsyncClient) -> None:
    plugins = {"evolution_envelope": {"apikey": MASK}}
    sentence = "plugins.evolution_envelope.apikey is masked, but no value is stored: send one."
    for path, body in (
        ("/webhook/set/loja1/new", {"url": URL, "plugins": plugins}),
        ("/instance/create", {"instanceName": "new", "webhook": {"url": URL, "plugins": plugins}}),
    ):
        refused = await client.post(path, json=body)
        assert (refused.status_code, refused.json()["response"]["message"]) == (400, [sentence])


@pytest.mark.parametrize(
    "webhook",
    [{"url": "https://********@example.com/hook"}, {"url": URL, "headers": {"authorization": MASK}}],
)
async def test_a_new_instance_has_nothing_that_a_mask_could_stand_for(
    client: httpx.AsyncClient, webhook: dict[str, Any]
) -> None:
    refused = await client.post("/instance/create", json={"instanceName": "new", "webhook": webhook})
    assert refused.status_code == 400
    assert "masked" in refused.json()["response"]["message"][0]


async def test_an_option_of_a_disabled_plugin_is_masked(client: httpx.AsyncClient, gateway: Gateway) -> None:
    await set_webhook(client)
    stored = gateway.registrations.get("loja1")
    stored.plugins.update(gone={"token": APIKEY, "empty": ""})  # set while the plugin was there
    shown = (await client.get("/webhook/find/loja1")).json()["plugins"]
    assert shown == {"gone": {"token": MASK, "empty": ""}}


PRIVATE_KEY = "whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlX0dRqSKJp4AJ6p9lMicMFs6Kvg=="
PUBLIC_KEY = "whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4="


@pytest.mark.parametrize("path", ["loja1", "loja1/crm"])
async def test_the_public_key_is_told_and_the_private_one_is_not(
    client: httpx.AsyncClient, path: str
) -> None:
    answer = await set_webhook(client, path, secret=PRIVATE_KEY)
    assert answer["signature"] == "v1a"
    for name in ("publicKey", "secret"):
        found = await client.get(f"/webhook/{name}/{path}")
        assert (found.status_code, found.json()) == (200, {"publicKey": PUBLIC_KEY})
    rotated = (await client.post(f"/webhook/rotateSecret/{path}")).json()
    assert list(rotated) == ["publicKey"]
    assert rotated["publicKey"] != PUBLIC_KEY
    assert (await client.get(f"/webhook/publicKey/{path}")).json() == rotated


async def test_a_shared_secret_has_no_public_key(client: httpx.AsyncClient) -> None:
    await set_webhook(client)
    refused = await client.get("/webhook/publicKey/loja1")
    assert refused.status_code == 409
    assert "signature v1a" in refused.json()["response"]["message"][0]
    assert (await client.get("/webhook/publicKey/loja1/none")).status_code == 404


async def test_deliveries_are_signed_with_both_keys_after_a_change(
    client: httpx.AsyncClient, hookgw_receiver: Receiver
) -> None:
    await set_webhook(client, url=hookgw_receiver.url)
    secret = (await client.get("/webhook/secret/loja1")).json()["secret"]
    await set_webhook(client, url=hookgw_receiver.url, signature="v1a")
    public_key = (await client.get("/webhook/publicKey/loja1")).json()["publicKey"]
    assert (await client.post("/webhook/test/loja1")).json()["outcome"] == "delivered"
    (request,) = hookgw_receiver.requests
    for key in (secret, public_key):
        hookgw_receiver.verify(request, key)
    signatures = (request.header("webhook-signature") or "").split(" ")
    assert [text.partition(",")[0] for text in signatures] == ["v1a", "v1"]


# Changes of some fields


@pytest.mark.parametrize(
    "body",
    [
        {"events": ["CALL"]},
        {"webhook": {"byEvents": True}},
        {"webhook_base64": True},
        {"timeout": "3s"},
        {"plugins": {"message_filters": {"groups": False}}},
    ],
)
async def test_patch_changes_the_given_fields_and_nothing_else(
    client: httpx.AsyncClient, gateway: Gateway, body: dict[str, Any]
) -> None:
    await set_webhook(
        client,
        "loja1/crm",
        events=["QRCODE_UPDATED"],
        headers={"Authorization": "Bearer x"},
        ordering="chat",
        concurrency=4,
        timeout="9s",
        retry={"maxAge": "1h"},
    )
    before = gateway.registrations.get("loja1", "crm")
    response = await client.patch("/webhook/set/loja1/crm", json=body)
    assert response.status_code == 200, response.text
    after = gateway.registrations.get("loja1", "crm")
    changed = {name for name in before.__struct_fields__ if getattr(before, name) != getattr(after, name)} - {
        "updated_at"
    }
    assert len(changed) == 1
    assert response.json() == (await client.get("/webhook/find/loja1/crm")).json()


async def test_patch_disables_and_enables(client: httpx.AsyncClient) -> None:
    first = await set_webhook(client, events=["CALL"], headers={"x": "y"})
    off = (await client.patch("/webhook/set/loja1", json={"enabled": False})).json()
    assert (off["state"], off["events"], off["url"]) == ("disabled", ["CALL"], URL)
    on = (await client.patch("/webhook/set/loja1", json={"enabled": True})).json()
    assert on.pop("missed")["count"] == 0
    assert on | {"updatedAt": ""} == first | {"updatedAt": ""}


async def test_an_invalid_patch_changes_nothing(client: httpx.AsyncClient) -> None:
    stored = await set_webhook(client)
    bodies: list[Any] = [
        {"events": ["CALL"], "timeout": "1 year"},
        {"url": "vazio"},
        {"headers": {"x": MASK}},
        {"plugins": {"message_filters": {"odd": 1}}},
        {"plugins": {"message_filterss": {}}},
        [1],
    ]
    for body in bodies:
        response = await client.patch("/webhook/set/loja1", json=body)
        assert response.status_code == 400, body
    assert (await client.get("/webhook/find/loja1")).json() == stored


async def test_patch_creates_nothing(client: httpx.AsyncClient, gateway: Gateway) -> None:
    body = {"url": URL, "enabled": True}
    response = await client.patch("/webhook/set/loja1", json=body)
    assert response.status_code == 404
    assert gateway.instances.find("loja1") is None
    await set_webhook(client)
    # The body is not even read.
    response = await client.patch("/webhook/set/loja1/crm", content=b"x")
    assert response.status_code == 404
    assert shape_of(response) == ["The instance 'loja1' has no webhook 'crm'."]


async def test_masked_values_in_a_patch_stand_for_the_stored_ones(
    client: httpx.AsyncClient, gateway: Gateway
) -> None:
    url = "https://ann:s3cret@example.com/hook"
    stored = await set_webhook(client, url=url, headers={"Authorization": "Bearer x"})
    headers = {"authorization": MASK, "X-New": "1"}
    await client.patch("/webhook/set/loja1", json={"url": stored["url"], "headers": headers})
    now = gateway.registrations.get("loja1")
    assert (now.url, now.headers) == (url, {"authorization": "Bearer x", "X-New": "1"})


async def test_a_patch_of_nothing_new_is_no_change(client: httpx.AsyncClient) -> None:
    stored = await set_webhook(client, headers={"x": "y"}, events=["CALL"])
    for body in ({}, {"enabled": True}, stored):
        assert (await client.patch("/webhook/set/loja1", json=body)).json() == stored


async def test_a_stored_url_that_nothing_can_be_delivered_to_is_not_enabled(
    client: httpx.AsyncClient, gateway: Gateway
) -> None:
    await set_webhook(client, url="vazio", enabled=False)
    response = await client.patch("/webhook/set/loja1", json={"enabled": True})
    assert response.status_code == 400
    (message,) = shape_of(response)
    assert message.startswith("url: ")
    assert not gateway.registrations.get("loja1").enabled
    response = await client.patch("/webhook/set/loja1", json={"enabled": True, "url": URL})
    assert response.json()["state"] == "active"


# Lists


async def test_the_list_of_an_instance_has_all_labels_and_no_secrets(
    client: httpx.AsyncClient, gateway: Gateway
) -> None:
    await gateway.instances.create("loja1")
    empty = await client.get("/webhook/list/loja1")
    assert empty.json() == {"registrations": [], "cursor": None}
    url = "https://ann:s3cret@example.com/hook"
    for label in ("n8n", "crm"):
        await set_webhook(client, f"loja1/{label}", url=url, headers={"Authorization": "planted-token"})
    await set_webhook(client, "loja2")
    listed = await client.get("/webhook/list/loja1")
    found = [(await client.get(f"/webhook/find/loja1/{label}")).json() for label in ("crm", "n8n")]
    assert listed.json()["registrations"] == [one | {"source": "api"} for one in found]
    assert "s3cret" not in listed.text
    assert "planted-token" not in listed.text
    assert "whsec_" not in listed.text


async def test_what_a_list_gives_can_be_sent_back(client: httpx.AsyncClient) -> None:
    await set_webhook(client, headers={"x": "y"})
    (listed,) = (await client.get("/webhook/list/loja1")).json()["registrations"]
    assert (await client.post("/webhook/set/loja1", json=listed)).json()["warnings"] == []


async def every_page(client: httpx.AsyncClient, limit: int) -> list[tuple[str, str]]:
    names: list[tuple[str, str]] = []
    cursor = ""
    while True:
        page = (await client.get("/webhook/list", params={"limit": limit, "cursor": cursor})).json()
        assert len(page["registrations"]) <= limit
        names += [(one["instance"], one["label"]) for one in page["registrations"]]
        if page["cursor"] is None:
            return names
        cursor = page["cursor"]


async def test_the_list_of_all_instances_comes_in_pages(client: httpx.AsyncClient) -> None:
    wanted = sorted((f"loja{n}", label) for n in (10, 9, 1, 3) for label in ("crm", "default", "n8n"))
    for instance, label in reversed(wanted):
        await set_webhook(client, f"{instance}/{label}")
    for limit in (1, 3, 5, 12, 100):
        assert await every_page(client, limit) == wanted


async def test_a_page_goes_on_although_its_last_registration_is_gone(client: httpx.AsyncClient) -> None:
    for label in ("a", "b", "c"):
        await set_webhook(client, f"loja1/{label}")
    page = (await client.get("/webhook/list?limit=2")).json()
    await client.delete("/webhook/delete/loja1/b")
    rest = (await client.get("/webhook/list", params={"cursor": page["cursor"]})).json()
    assert [one["label"] for one in rest["registrations"]] == ["c"]


async def test_a_page_of_long_registrations_ends_early(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    for label in ("a", "b", "c"):
        await set_webhook(client, f"loja1/{label}", url=f"{URL}?{'x' * 1000}")
    monkeypatch.setattr("hookgw.web.lists.LIST", 5000)
    page = (await client.get("/webhook/list")).json()
    assert len(page["registrations"]) < 3
    assert page["cursor"]
    assert await every_page(client, 100) == [("loja1", label) for label in ("a", "b", "c")]


@pytest.mark.parametrize(
    "query",
    [
        {"limit": "0"},
        {"limit": "1001"},
        {"limit": "x"},
        {"cursor": "!"},
        {"cursor": "abcd"},
        {"cursor": "_w"},
    ],
)
async def test_a_wrong_page_is_refused(client: httpx.AsyncClient, query: dict[str, str]) -> None:
    response = await client.get("/webhook/list", params=query)
    assert response.status_code == 400
    (message,) = shape_of(response)
    assert message.startswith(next(iter(query)))


class TestWithGlobalWebhooks:
    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        blocks = tuple(
            {"label": label, "url": f"https://{label}.example/", "headers": {"x-token": "planted-token"}}
            for label in ("b", "a")
        )
        return msgspec.structs.replace(settings, global_webhooks=blocks)

    async def test_the_list_of_all_begins_with_those_of_the_configuration(
        self, client: httpx.AsyncClient
    ) -> None:
        await set_webhook(client)
        listed = await client.get("/webhook/list")
        assert "planted-token" not in listed.text
        marks = ("source", "instance", "instanceId", "label")
        shown = [tuple(one[name] for name in marks) for one in listed.json()["registrations"]]
        assert shown[:2] == [("configuration", "*", "*", "a"), ("configuration", "*", "*", "b")]
        assert [one[:2] for one in shown[2:]] == [("api", "loja1")]
        assert await every_page(client, 1) == [("*", "a"), ("*", "b"), ("loja1", "default")]
        # Which receivers the operator has is none of the tenant's business.
        of_one = (await client.get("/webhook/list/loja1")).json()["registrations"]
        assert [one["source"] for one in of_one] == ["api"]
