"""Keys with a reach and rights, through the HTTP API, as somebody would try them who wants more."""

from typing import Any

import httpx
import pytest
import trio

from hookgw import Gateway
from hookgw.deliveries import pull
from tests.api.conftest import slow_request
from tests.api.test_app import shape_of
from tests.public.core import OUT_OF_REACH
from tests.public.records import DeliverySelection, Job, JobKind
from tests.public.web import AppApplication as Application
from tests.support.waits import until

URL = "http://127.0.0.1:9/hook"
EVENT = {"event": "MESSAGES_UPSERT", "data": {"secret": "what they wrote"}}


@pytest.fixture
async def client(client: httpx.AsyncClient) -> httpx.AsyncClient:
    """With three instances of acme, one of another customer, and one of nobody, each with an event."""
    for name, tags in {
        "acme1": {"tenant": "acme"},
        "acme2": {"tenant": "acme"},
        "acme3": {"tenant": "acme", "plan": "gold"},
        "other1": {"tenant": "other"},
        "alone": {},
    }.items():
        created = await client.post("/instance/create", json={"instanceName": name, "tags": tags})
        assert created.status_code == 201
        assert (await client.post(f"/webhook/set/{name}", json={"url": URL})).status_code == 201
        assert (
            await client.post(f"/event/emit/{name}", json={**EVENT, "id": f"e-{name}"})
        ).status_code == 202
    return client


async def make(client: httpx.AsyncClient, by: str | None = None, **asked: Any) -> str:
    """Return a new key."""
    headers = {} if by is None else {"apikey": by}
    response = await client.post("/key/create", json={"name": "acme", **asked}, headers=headers)
    assert response.status_code == 201, response.text
    key: str = response.json()["key"]
    return key


def as_(key: str) -> Any:
    return {"headers": {"apikey": key}}


ACME: Any = {"tags": {"tenant": "acme"}}
ALL_OF_ACME = ["acme1", "acme2", "acme3"]


async def test_lists_are_filtered_by_reach(client: httpx.AsyncClient) -> None:
    key = as_(await make(client, **ACME))
    found = (await client.get("/instance/fetchInstances", **key)).json()
    assert [one["name"] for one in found] == ALL_OF_ACME
    registrations = (await client.get("/webhook/list", **key)).json()["registrations"]
    assert [one["instance"] for one in registrations] == ALL_OF_ACME
    deliveries = (await client.get("/delivery/list", **key)).json()["deliveries"]
    assert {one["instance"] for one in deliveries} == {*ALL_OF_ACME}
    events = (await client.get("/event/list", **key)).json()["events"]
    assert {one["instance"] for one in events} == {*ALL_OF_ACME}
    entries = (await client.get("/audit/list", **key)).json()["entries"]
    assert {one["instance"] for one in entries} == {*ALL_OF_ACME}
    lanes = (await client.get("/lane/list", **key)).json()
    assert {one["instance"] for one in lanes} <= {*ALL_OF_ACME}
    checks = (await client.get("/diagnosis", **key)).json()["checks"]
    assert {one["instance"] for one in checks if "instance" in one} <= {*ALL_OF_ACME}
    assert not [one for one in checks if "GiB" in one["found"]]


async def test_pages_of_a_list_stay_within_reach(client: httpx.AsyncClient) -> None:
    key = as_(await make(client, **ACME))
    first = (await client.get("/webhook/list?limit=2", **key)).json()
    rest = (await client.get(f"/webhook/list?cursor={first['cursor']}", **key)).json()
    names = [one["instance"] for page in (first, rest) for one in page["registrations"]]
    assert names == ALL_OF_ACME
    # The cursor of a key that reaches more leads to nothing more.
    wide = (await client.get("/delivery/list?limit=1")).json()
    for _ in range(5):
        page = (await client.get(f"/delivery/list?cursor={wide['cursor']}", **key)).json()
        assert {one["instance"] for one in page["deliveries"]} <= {*ALL_OF_ACME}
    # Nor does that of the one instance that is in reach, used for another one.
    own = (await client.get("/event/list/acme1?limit=1", **key)).json()
    response = await client.get(f"/event/list/other1?cursor={own['cursor']}", **key)
    assert response.status_code == 403


@pytest.mark.parametrize(
    "name", ["other1", "alone", "nobody", "ACME1", "acme1%2F..%2Fother1", "%6Fther1", "acme"]
)
async def test_other_instances_are_as_unknown_ones(name: str, client: httpx.AsyncClient) -> None:
    key = as_(await make(client, **ACME))
    for method, path in (
        ("GET", f"/webhook/find/{name}"),
        ("POST", f"/event/emit/{name}"),
        ("GET", f"/delivery/find/{name}/e-other1"),
        ("GET", f"/diagnosis/{name}"),
    ):
        response = await client.request(method, path, **key)
        assert (response.status_code, shape_of(response)) == (403, [OUT_OF_REACH])


@pytest.mark.parametrize("call", ["replay", "cancel"])
async def test_a_bulk_job_stays_within_reach(call: str, client: httpx.AsyncClient, gateway: Gateway) -> None:
    key = as_(await make(client, **ACME))
    selection: dict[str, Any] = {} if call == "cancel" else {"since": "1h", "state": "all"}
    counted = (await client.post(f"/delivery/{call}", json={**selection, "dryRun": True}, **key)).json()
    everything = (await client.post(f"/delivery/{call}", json={**selection, "dryRun": True})).json()
    assert counted["instances"].keys() <= {*ALL_OF_ACME}
    done = await client.post(f"/delivery/{call}", json=selection, **key)
    assert done.status_code in (200, 202)
    assert done.json()[{"replay": "replayed", "cancel": "cancelled"}[call]] <= counted["matching"]
    assert counted["matching"] <= everything["matching"]
    for name in ("other1", "alone"):
        listed = (await client.get(f"/delivery/list/{name}")).json()["deliveries"]
        assert [one["state"] for one in listed] == ["pending"]
    for names in (["acme1", "other1"], ["nobody"]):
        body = {**selection, "instances": names}
        response = await client.post(f"/delivery/{call}", json=body, **key)
        assert (response.status_code, shape_of(response)) == (403, [OUT_OF_REACH])
    # A beginning of names selects what is within reach, and says nothing of the rest.
    body = {**selection, "instances": ["o*"], "dryRun": True}
    assert (await client.post(f"/delivery/{call}", json=body, **key)).json()["matching"] == 0


async def test_a_job_over_instances_is_for_those_who_reach_all(
    client: httpx.AsyncClient, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    acme = as_(await make(client, **ACME))
    gold = as_(await make(client, name="gold", tags={"tenant": "acme", "plan": "gold"}))

    def job(*names: str) -> Job:
        chosen = DeliverySelection(instances=names)
        return gateway.jobs.new(JobKind.CANCEL, "*", instances=3, cancel=chosen)

    of_acme, everybodys = job(*ALL_OF_ACME), job()
    mixed, beginnings, former = job("acme1", "other1"), job("acme*"), job("acme1", "gone")
    jobs = {one.id: one for one in (of_acme, everybodys, mixed, beginnings, former)}

    async def everywhere() -> list[Job]:
        return [*jobs.values()]

    monkeypatch.setattr(gateway.jobs, "find", jobs.get)
    monkeypatch.setattr(gateway.jobs, "everywhere", everywhere)
    assert len((await client.get("/job/list")).json()) == 5
    assert [one["id"] for one in (await client.get("/job/list", **acme)).json()] == [of_acme.id]
    assert (await client.get("/job/list", **gold)).json() == []
    for call in ("GET /job/find/", "POST /job/cancel/", "POST /job/pause/", "POST /job/resume/"):
        method, _, path = call.partition(" ")
        for one in jobs.values():
            if one is not of_acme:
                response = await client.request(method, f"{path}{one.id}", **acme)
                [sentence] = shape_of(response)
                assert sentence.startswith(f"There is no job {one.id!r}.")
    assert (await client.get(f"/job/find/{of_acme.id}", **acme)).status_code == 200
    await client.patch("/instance/tags/acme2", json={"tags": {}})
    assert (await client.get(f"/job/find/{of_acme.id}", **acme)).status_code == 404


async def test_tags_decide_at_each_call(client: httpx.AsyncClient) -> None:
    key = as_(await make(client, **ACME))
    assert (await client.get("/webhook/find/acme1", **key)).status_code == 200
    await client.patch("/instance/tags/acme1", json={"tags": {"tenant": "other"}})
    await client.patch("/instance/tags/alone", json={"tags": {"tenant": "acme"}})
    response = await client.get("/webhook/find/acme1", **key)
    assert (response.status_code, shape_of(response)) == (403, [OUT_OF_REACH])
    assert (await client.get("/webhook/find/alone", **key)).status_code == 200
    assert (await client.patch("/instance/tags/other1", json={"tags": {}}, **key)).status_code == 403
    limited = as_(await make(client, name="limited", **ACME, rights=["read", "connect", "keys", "instances"]))
    response = await client.patch("/instance/tags/acme2", json={"tags": {}}, **limited)
    assert shape_of(response) == ["This key does not have the right 'operate'."]


async def test_a_key_leaves_the_tags_of_its_reach_as_they_are(client: httpx.AsyncClient) -> None:
    # An instance of another customer would count, with its backlog, in that customer's limits.
    key = as_(await make(client, **ACME))
    path = "/instance/tags/acme1"
    refused = await client.patch(path, json={"tags": {"tenant": "other"}}, **key)
    assert (refused.status_code, refused.json()["response"]["errors"][0]["id"]) == (403, "key.out_of_tag")
    changed = await client.patch(path, json={"tags": {"plan": "gold"}}, **key)
    assert changed.json()["tags"] == {"plan": "gold", "tenant": "acme"}


async def test_a_later_instance_of_a_name_is_not_reached(client: httpx.AsyncClient) -> None:
    key = as_(await make(client, instances=["alone", "other1"]))
    assert (await client.get("/webhook/find/alone", **key)).status_code == 200
    await client.delete("/instance/delete/alone")
    response = await client.get("/webhook/find/alone", **key)
    assert (response.status_code, shape_of(response)) == (403, [OUT_OF_REACH])
    assert (await client.post("/instance/create", json={"instanceName": "alone"})).status_code == 201
    assert (await client.get("/webhook/find/alone", **key)).status_code == 403
    assert [one["name"] for one in (await client.get("/instance/fetchInstances", **key)).json()] == ["other1"]
    listed = (await client.get("/key/list")).json()
    assert next(one["instances"] for one in listed if one["name"] == "acme") == ["other1"]


async def test_without_payloads_there_is_no_data(client: httpx.AsyncClient) -> None:
    key = as_(await make(client, **ACME, rights=["read", "replay", "webhooks"]))
    withheld = "This key does not have the right 'payloads'."
    events = (await client.get("/event/list/acme1", **key)).json()["events"]
    event = (await client.get("/event/find/acme1/e-acme1", **key)).json()["event"]
    delivery = (await client.get("/delivery/find/acme1/e-acme1", **key)).json()["event"]
    for one in (*events, event, delivery):
        assert ("data" in one, one["withheld"]) == (False, withheld)
    for path in (
        "/event/list/acme1?text=wrote",
        "/event/list?chat=5511988887777",
        "/event/list/acme1?sender=5511988887777",
        "/event/list/acme1?id=abc",
        "/event/list?person=5511988887777",
        "/delivery/list/acme1?text=wrote",
        "/delivery/list?person=5511988887777",
    ):
        response = await client.get(path, **key)
        assert (response.status_code, shape_of(response)) == (403, [withheld]), path
    for path, body in (
        ("/delivery/replay/acme1", {"since": "1h", "text": "wrote", "dryRun": True}),
        ("/delivery/cancel", {"person": "5511988887777", "dryRun": True}),
        ("/delivery/resend/acme1/e-acme1", {"url": "http://127.0.0.1:9/mine"}),
        (
            "/webhook/backfill/acme1",
            {"since": "1h", "filter": [{"pointer": "/data/secret", "op": "exists"}], "dryRun": True},
        ),
    ):
        response = await client.post(path, json=body, **key)
        assert (response.status_code, shape_of(response)) == (403, [withheld]), path
    assert "wrote" not in (await client.get("/event/list", **key)).text
    seeing = as_(await make(client, name="seeing", **ACME, rights=["read", "payloads"]))
    assert (await client.get("/event/find/acme1/e-acme1", **seeing)).json()["event"]["data"] == EVENT["data"]


async def test_a_key_makes_none_that_can_more(client: httpx.AsyncClient) -> None:
    key = await make(client, **ACME, rights=["read", "keys"], expiresIn="30d")
    inner = await make(client, key, name="inner")
    for one in (key, inner):
        assert len((await client.get("/instance/fetchInstances", **as_(one))).json()) == 3
        assert (await client.post("/event/emit/acme1", json=EVENT, **as_(one))).status_code == 403
    listed = {one["name"]: one for one in (await client.get("/key/list", **as_(key))).json()}
    assert listed.keys() == {"acme", "inner"}
    assert listed["inner"]["tags"] == {"tenant": "acme"}
    assert listed["inner"]["rights"] == ["read", "keys"]
    assert listed["inner"]["expiresAt"] == listed["acme"]["expiresAt"]
    for asked in (
        {"rights": ["read", "send"]},
        {"rights": ["operate"]},
        {"tags": {"tenant": "other"}},
        {"instances": ["acme1", "other1"]},
        {"instances": ["nobody"]},
        {"expiresIn": "31d"},
    ):
        response = await client.post("/key/create", json={"name": "more", **asked}, **as_(key))
        assert response.status_code == 403, asked
    # By its tags as well: an instance that moves to another customer is lost to this key, too.
    by_name = as_(await make(client, key, name="by-name", instances=["acme1"]))
    assert (await client.get("/webhook/find/acme1", **by_name)).status_code == 200
    own = (await client.post("/key/create/acme2", json={"name": "own"}, **as_(key))).json()
    assert own["rights"] == ["read", "keys"]
    for name in ("acme1", "acme2"):
        await client.patch(f"/instance/tags/{name}", json={"tags": {"tenant": "other"}})
    assert (await client.get("/webhook/find/acme1", **by_name)).status_code == 403
    assert (await client.get("/webhook/find/acme2", **as_(own["key"]))).status_code == 403


async def test_a_key_revokes_none_that_can_more(client: httpx.AsyncClient) -> None:
    key = as_(await make(client, **ACME, rights=["read", "keys"]))
    await make(client, name="other", tags={"tenant": "other"}, rights=["read", "keys"])
    await make(client, name="strong", **ACME)
    await make(client, name="weak", **ACME, rights=["read"])
    for name in ("other", "strong", "configuration", "nobody"):
        response = await client.delete(f"/key/delete/{name}", **key)
        assert response.status_code in (404, 409), name
        assert name == "configuration" or shape_of(response) == [f"There is no key {name!r}."]
    assert (await client.delete("/key/delete/weak", **key)).status_code == 200


async def test_a_new_instance_is_within_the_reach_that_made_it(
    client: httpx.AsyncClient, gateway: Gateway
) -> None:
    key = await make(client, **ACME, rights=["instances", "read"], expiresIn="30d")
    created = (await client.post("/instance/create", json={"instanceName": "acme4"}, **as_(key))).json()
    found = (await client.get("/instance/fetchInstances?instanceName=acme4", **as_(key))).json()
    assert found[0]["tags"] == {"tenant": "acme"}
    # Its own key can no more than the one that made it, and lasts no longer.
    own = as_(created["hash"])
    assert (await client.get("/webhook/find/acme4", **own)).status_code == 200
    for method, path in (("POST", "/event/emit/acme4"), ("POST", "/key/create/acme4")):
        assert (await client.request(method, path, json=EVENT, **own)).status_code == 403
    (holder, maker) = (gateway.keys.holder_of(one) for one in (created["hash"], key))
    assert holder is not None
    assert maker is not None
    assert (holder.counted_as, holder.bucket) == ("key acme", maker.bucket)
    (shown,) = (await client.get("/key/list/acme4")).json()
    assert (shown["rights"], shown["expiresAt"] is None) == (["read", "instances"], False)
    for body, status in (
        ({"instanceName": "acme5", "tags": {"tenant": "acme"}}, 201),
        ({"instanceName": "mine", "tags": {"tenant": "other"}}, 403),
        ({"instanceName": "mine", "tags": {"tenant": "acme", "plan": "gold"}}, 403),
        ({"instanceName": "mine", "webhook": {"url": URL}}, 403),
        ({"instanceName": "mine", "qrcode": True, "integration": "simulator"}, 403),
    ):
        assert (await client.post("/instance/create", json=body, **as_(key))).status_code == status, body
    by_name = as_(await make(client, name="by-name", instances=["acme1"]))
    response = await client.post("/instance/create", json={"instanceName": "mine"}, **by_name)
    assert response.status_code == 403


async def test_only_an_operator_chooses_a_short_token(client: httpx.AsyncClient) -> None:
    """It is refused if another instance has it: whoever may create instances could try which ones exist."""
    assert (
        await client.post("/instance/create", json={"instanceName": "bigco", "token": "shop2026"})
    ).status_code == 201
    within = await make(client, **ACME, rights=["instances"])
    everywhere = await make(client, name="all", rights=["instances"])
    for number, key in enumerate((within, everywhere)):
        for token in ("shop2026", "x" * 31):
            body = {"instanceName": f"acme4{number}", "token": token}
            response = await client.post("/instance/create", json=body, **as_(key))
            assert (response.status_code, shape_of(response)) == (
                400,
                ["token must be 32 to 256 printable ASCII characters."],
            )
        body = {"instanceName": f"acme4{number}", "token": f"{number}" * 32}
        assert (await client.post("/instance/create", json=body, **as_(key))).status_code == 201


async def test_a_key_that_receives_one_label(client: httpx.AsyncClient) -> None:
    for label in ("default", "crm"):
        response = await client.post(f"/webhook/set/acme1/{label}", json={"url": "pull:"})
        assert response.status_code == 201, response.text
    key = as_(await make(client, **ACME, rights=["receive:crm"]))
    assert (await client.post("/delivery/pull/acme1/crm", json={}, **key)).status_code == 200
    for path in ("/delivery/pull/acme1", "/delivery/pull/acme1/default", "/delivery/ack/acme1"):
        response = await client.post(path, json={}, **key)
        assert (response.status_code, shape_of(response)) == (
            403,
            ["This key does not have the right 'receive:default'."],
        )
    assert (await client.post("/delivery/pull/other1/crm", json={}, **key)).status_code == 403


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        ({"rights": ["reed"]}, "rights[0] must be one of"),
        ({"rights": []}, "rights must name a right."),
        ({"rights": ["read:crm"]}, "rights[0] must be one of"),
        ({"rights": ["receive:a", "receive:b"]}, "rights must have receive once"),
        ({"tags": {}}, "tags must have a tag."),
        ({"tags": {"a": "b c"}}, "tags.a must be"),
        ({"instances": []}, "instances must name an instance."),
        ({"instances": ["acme1"], "tags": {"a": "b"}}, "Send tags or instances, not both."),
        ({"instances": ["acme1"] * 1001}, "at most 1,000 are allowed"),
    ],
)
async def test_what_a_key_can_be(asked: Any, problem: str, client: httpx.AsyncClient) -> None:
    response = await client.post("/key/create", json={"name": "key", **asked})
    assert response.status_code == 400
    assert problem in shape_of(response)[0]


async def test_a_key_of_an_instance_has_fewer_rights(client: httpx.AsyncClient) -> None:
    created = await client.post("/key/create/acme1", json={"name": "send", "rights": ["send"]})
    own = as_(created.json()["key"])
    assert (await client.post("/event/emit/acme1", json=EVENT, **own)).status_code == 202
    assert (await client.get("/webhook/find/acme1", **own)).status_code == 403
    response = await client.post("/key/create/acme1", json={"name": "x", "tags": {"a": "b"}})
    assert response.status_code == 400
    assert (await client.get("/key/list/acme1")).json()[-1]["rights"] == ["send"]


async def test_a_revoked_key_opens_nothing_at_once(client: httpx.AsyncClient) -> None:
    key = as_(await make(client, **ACME))
    assert (await client.delete("/key/delete/acme")).status_code == 200
    assert (await client.get("/instance/fetchInstances", **key)).status_code == 401


async def test_a_long_poll_and_a_stream_end_when_the_instance_leaves_the_reach(
    client: httpx.AsyncClient, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pull, "LOOK_EVERY", 1.0)
    client.event_hooks = {}  # they read a stream as one response
    await client.post("/webhook/set/acme1/crm", json={"url": "pull:"})
    webhook = gateway.pulls.find("acme1", "crm")
    key = as_(await make(client, **ACME, rights=["receive"]))
    answers: list[httpx.Response] = []

    async def poll() -> None:
        answers.append(await client.post("/delivery/pull/acme1/crm", json={"wait": "20s"}, **key))

    async def stream() -> None:
        headers = {**key["headers"], "accept": "text/event-stream"}
        request = client.build_request(
            "POST", "/delivery/pull/acme1/crm", json={}, headers=headers, timeout=30
        )
        streams.append((await client.send(request)).text)  # all of it: it ends

    streams: list[str] = []
    for wait in (poll, stream):
        await client.patch("/instance/tags/acme1", json={"tags": {"tenant": "acme"}})
        with trio.fail_after(40):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(wait)
                await until(lambda: bool((fetched := gateway.pulls.fetched(webhook)) and fetched.waits))
                await client.patch("/instance/tags/acme1", json={"tags": {}})
                await client.post("/event/emit/acme1", json={**EVENT, "id": f"later-{wait.__name__}"})
    assert (answers[0].status_code, shape_of(answers[0])) == (403, [OUT_OF_REACH])
    assert "later-stream" not in streams[0]
    assert (
        streams[0]
        .rstrip()
        .endswith(
            f'data: {{"message":["{OUT_OF_REACH}"],"errors":[{{"id":"key.out_of_reach","values":{{}}}}]}}'
        )
    )


@pytest.mark.parametrize(
    ("path", "status"), [("/event/list/acme1", 403), ("/webhook/find/acme1", 403), ("/event/list", 200)]
)
async def test_a_read_that_waits_for_memory_shows_nothing_out_of_reach(
    client: httpx.AsyncClient, app: Application, gateway: Gateway, path: str, status: int
) -> None:
    key = as_(await make(client, **ACME))
    memory, answers = app.response_memory, list[httpx.Response]()
    whole = int(gateway.settings.server.response_memory)
    memory.change("another", 0, whole)

    async def read() -> None:
        answers.append(await client.get(path, **key))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        await trio.sleep(0.5)
        assert not answers
        await client.patch("/instance/tags/acme1", json={"tags": {}})
        memory.change("another", whole, 0)
    assert answers[0].status_code == status
    assert "e-acme1" not in answers[0].text
    assert URL not in answers[0].text


async def test_a_read_that_took_long_shows_nothing_to_a_revoked_key(
    client: httpx.AsyncClient, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = as_(await make(client, **ACME))
    list_events = gateway.store.list_events

    async def slowly(*given: Any) -> Any:
        page = await list_events(*given)
        await client.delete("/key/delete/acme")
        return page

    monkeypatch.setattr(gateway.store, "list_events", slowly)
    assert (await client.get("/event/list/acme1", **key)).status_code == 401


async def test_a_body_that_comes_slowly_changes_nothing_out_of_reach(
    client: httpx.AsyncClient, gateway: Gateway
) -> None:
    key = await make(client, **ACME)
    async with slow_request(client, "/webhook/set/acme1", f'{{"url":"{URL}2"}}', apikey=key) as slow:
        await client.patch("/instance/tags/acme1", json={"tags": {}})
        status, _ = await slow.finish()
    assert status == 403
    assert gateway.registrations.get("acme1").url == URL


async def test_a_cancellation_names_the_limited_key(client: httpx.AsyncClient) -> None:
    """The name of a key that reaches everything is the operator's; other tests have it."""
    key = await make(client, tags={"tenant": "acme"})
    for name in ("acme1", "acme2"):
        assert (await client.post(f"/webhook/pause/{name}")).status_code == 200
        assert (await client.post(f"/event/emit/{name}", json={**EVENT, "id": "late"})).status_code == 202
    one = await client.post("/delivery/cancel/acme1/late", **as_(key))
    assert one.json()["reason"] == "Cancelled with the key 'acme'."
    many = await client.post("/delivery/cancel/acme2", json={"since": "1h"}, **as_(key))
    assert many.status_code in (200, 202)
    found = (await client.get("/delivery/find/acme2/late")).json()
    assert found["reason"] == "Cancelled with the key 'acme'."
