"""WhatsApp's Cloud API: a stand-in for Meta, which a third-party client proves, and a real gateway."""

import os
import random
import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio

from tests.networks.gateway import Gateway, running_gateway
from tests.networks.whatsapp_cloud.graph import ACCOUNT, APP, CUSTOMER, NUMBER, SECRET, TOKEN, WABA, Graph
from tests.networks.whatsapp_cloud.server import Server, running_server
from tests.networks.whatsapp_cloud.webhooks import (
    USER_ID,
    VERIFY_TOKEN,
    Sender,
    encode,
    message,
    notification,
    signature,
    status,
    text_message,
    value,
)
from tests.support.gateway_process import KEY

PAGE = Path(__file__).parents[2] / "docs" / "networks" / "whatsapp_cloud.md"
MESSAGES = 120
CHAT = f"{CUSTOMER}@s.whatsapp.net"
SHARED = {"app_secret": SECRET, "verify_token": VERIFY_TOKEN}

pytestmark = [pytest.mark.networks, pytest.mark.timeout(300)]


# The stand-in, with a client of somebody else


@pytest.fixture
def graph() -> Graph:
    return Graph()


@pytest.fixture
def pywa(graph: Graph) -> Any:
    """A client of pywa whose requests reach the stand-in."""
    library = pytest.importorskip("pywa", reason="pywa is not installed: run nox -s networks")
    with httpx.Client(transport=httpx.MockTransport(graph.answer)) as http:
        yield library.WhatsApp(
            phone_id=NUMBER,
            token=TOKEN,
            session=http,
            server=None,
            app_secret=SECRET,
            verify_token=VERIFY_TOKEN,
        )


def test_another_client_sends_to_the_stand_in(graph: Graph, pywa: Any) -> None:
    from pywa import errors, types

    text = pywa.send_message(CUSTOMER, "hi", preview_url=True, tracker="17", reply_to_message_id="wamid.x")
    image = pywa.send_image(CUSTOMER, b"\xff\xd8\xff", mime_type="image/jpeg", caption="look")
    pywa.send_document(CUSTOMER, "https://a.example/a.pdf", filename="a.pdf")
    pywa.send_location(CUSTOMER, 1.5, 2.5, name="HQ")
    pywa.send_reaction(CUSTOMER, "👍", text.id)
    name = types.Contact.Name(formatted_name="Ana", first_name="Ana")
    pywa.send_contact(CUSTOMER, types.Contact(name=name, phones=[types.Contact.Phone(phone="+55 11")]))
    pywa.send_message(USER_ID, "to a user without a number")
    assert [body["type"] for body in graph.sent] == [
        *("text", "image", "document", "location", "reaction", "contacts", "text"),
    ]
    assert [text.id, image.id] == [body["id"] for body in graph.sent[:2]]
    graph.incoming.add("wamid.in")
    assert pywa.mark_message_as_read("wamid.in")
    assert pywa.indicate_typing("wamid.in")
    assert graph.read == ["wamid.in", "wamid.in typing"]
    url = pywa.get_media_url(graph.add_media(b"OggS", "audio/ogg"))
    assert (url.file_size, url.mime_type) == (4, "audio/ogg")
    assert pywa.get_media_bytes(url=url.url) == b"OggS"
    fields = ("verified_name", "display_phone_number")
    number = pywa.api.get_business_phone_number(phone_id=NUMBER, fields=fields)
    assert number == {"verified_name": "Acme Shop", "display_phone_number": "+1 555-078-3881", "id": NUMBER}
    graph.closed_windows.add(CUSTOMER)
    with pytest.raises(errors.ReEngagementMessage):
        pywa.send_message(CUSTOMER, "too late")
    graph.tokens.clear()
    with pytest.raises(errors.ExpiredAccessToken):
        pywa.send_message(CUSTOMER, "no token")


def test_another_client_reads_the_webhooks_of_the_stand_in(pywa: Any) -> None:
    arrived: list[Any] = []
    pywa.on_message()(lambda _, update: arrived.append(update))
    pywa.on_message_status()(lambda _, update: arrived.append(update))
    pywa.on_callback_button()(lambda _, update: arrived.append(update))
    file = {"id": "1", "mime_type": "image/png", "sha256": "x"}
    for one in (
        notification(value(messages=[text_message("hi", context={"from": ACCOUNT, "id": "wamid.1"})])),
        notification(value(messages=[message("image", {**file, "caption": "look"})])),
        notification(value(messages=[message("location", {"latitude": 1.5, "longitude": 2.5})])),
        notification(value(messages=[message("reaction", {"message_id": "wamid.1", "emoji": "👍"})])),
        notification(value(statuses=[status("wamid.1", "delivered")])),
    ):
        body = encode(one)
        assert pywa.webhook_update_validator(body, signature(body, "another secret")) is not None
        assert pywa.webhook_update_validator(body, signature(body)) is None
        assert pywa.webhook_update_handler(body) == ("ok", 200)
    text, image, place, reaction, delivered = arrived
    assert (text.text, text.from_user.wa_id, text.from_user.name) == ("hi", CUSTOMER, "Sheena Nelson")
    assert text.reply_to_message.id == "wamid.1"
    assert (image.image.id, image.caption) == ("1", "look")
    assert (place.location.latitude, reaction.reaction.emoji) == (1.5, "👍")
    assert (delivered.id, str(delivered.status)) == ("wamid.1", "delivered")
    assert pywa.webhook_challenge_handler(VERIFY_TOKEN, "42") == ("42", 200)


# A real gateway


@asynccontextmanager
async def gateway_at(folder: Path, url: str) -> AsyncIterator[Gateway]:
    options = {"whatsapp_cloud": {**SHARED, "base_url": url, "servers": [url]}}
    async with running_gateway(folder, options, events={"validate": "strict"}) as gateway:
        yield gateway


@pytest.fixture
async def meta(graph: Graph) -> AsyncIterator[tuple[Server, str]]:
    with trio.fail_after(250):
        async with running_server(graph) as (server, url):
            yield server, url


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(trust_env=False, timeout=10) as http:
        yield http


async def test_nothing_is_lost_or_doubled_through_kills(
    tmp_path: Path, graph: Graph, meta: tuple[Server, str], http: httpx.AsyncClient
) -> None:
    """People write while the number sends; Meta repeats what was answered, too, in other company and late."""
    options = {"phone_number_id": NUMBER, "access_token": TOKEN}
    written = [text_message(f"in {number}") for number in range(MESSAGES)]
    done = {"in": 0, "out": 0}
    async with gateway_at(tmp_path, meta[1]) as gateway:
        url = await gateway.connect("shop", "whatsapp_cloud", **options)
        sender = Sender(url, http)
        statuses: list[dict[str, Any]] = []

        def report(sent: dict[str, Any]) -> None:
            statuses.extend(status(sent["id"], word) for word in ("sent", "delivered", "read"))

        graph.on_sent = report

        async def write() -> None:
            while done["in"] < MESSAGES:
                first, size = done["in"], random.randint(1, 4)
                batch = [value(messages=[one]) for one in written[first : first + size]]
                # One that was answered before, again: its answer was lost.
                late = [value(messages=[random.choice(written[:first])])] if first else []
                await sender.deliver(notification(*late, *batch))
                done["in"] += len(batch)

        async def send() -> None:
            for number in range(MESSAGES // 4):
                body = {"number": CUSTOMER, "text": f"out {number}"}
                call = partial(gateway.try_call, "POST", "message/sendText/shop", body, key=f"out-{number}")
                while not await was_sent(call):  # noqa: ASYNC110 (a retry)
                    await trio.sleep(0.05)
                done["out"] = 4 * number
                random.shuffle(statuses)
                await sender.deliver(notification(*[value(statuses=[one]) for one in statuses[:40]]))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(write)
            nursery.start_soon(send)
            for part in (1, 2, 3):
                while min(done.values()) < part * MESSAGES // 4 - 10:  # noqa: ASYNC110 (a process reports it)
                    await trio.sleep(0.005)
                await trio.sleep(random.uniform(0, 0.05))
                await gateway.kill()
                await gateway.start()
        for first in range(0, len(statuses), 40):
            await sender.deliver(notification(*[value(statuses=[s]) for s in statuses[first : first + 40]]))
        await sender.deliver(notification(value(messages=[text_message("the last")])))
        await gateway.wait_for_event("MESSAGES_UPSERT", message={"conversation": "the last"})
        texts = [data["message"]["conversation"] for data in gateway.events("MESSAGES_UPSERT", "shop")]
        updates = [(data["keyId"], data["status"]) for data in gateway.events("MESSAGES_UPDATE", "shop")]
        sent = [data["key"]["id"] for data in gateway.events("SEND_MESSAGE", "shop")]
    assert texts == [*(f"in {number}" for number in range(MESSAGES)), "the last"]
    assert len(updates) == len(set(updates)) == len(statuses)
    # A kill may come between Meta's acceptance and the event; and the caller's repetition is another message.
    accepted = {one["id"]: one["text"]["body"] for one in graph.sent}
    assert set(sent) <= set(accepted)
    assert set(accepted.values()) == {f"out {number}" for number in range(MESSAGES // 4)}
    assert len(accepted) <= MESSAGES // 4 + 3


async def was_sent(call: Any) -> bool:
    try:
        answer = await call()
    except httpx.HTTPError:
        return False
    # 409: the number is not checked yet.
    assert answer.status_code in (201, 409, 502, 503), answer.text
    return bool(answer.status_code == 201)


async def test_faults_at_meta(
    tmp_path: Path, graph: Graph, meta: tuple[Server, str], http: httpx.AsyncClient
) -> None:
    server, base_url = meta
    body = {"number": CUSTOMER, "text": "hi"}
    graph.will("number", httpx.Response(503, text="<html>"), httpx.ReadError("reset"))
    async with gateway_at(tmp_path, base_url) as gateway:
        url = await gateway.create("shop", "whatsapp_cloud", phone_number_id=NUMBER, access_token=TOKEN)
        sender = Sender(url, http)
        assert (await sender.verify()).status_code == 503  # the instance is not connected
        # Meta repeats it until somebody connects the instance; the number need not be open.
        await gateway.try_call("GET", "instance/connect/shop")
        answer = await sender.verify(challenge="1158201444")
        assert (answer.status_code, answer.content) == (200, b"1158201444")
        assert answer.headers["content-type"].startswith("text/plain")
        assert (await sender.verify("another token")).status_code == 403
        first = notification(value(messages=[text_message("first")]))
        assert (await sender.post(first, secret="another secret")).status_code == 401
        assert (await sender.post(encode(first)[:-9])).status_code == 400
        assert (await sender.post(first)).status_code == 200
        await gateway.wait_for_state("shop", "open")

        async def refused(status_code: int, *faults: httpx.Response | Exception) -> httpx.Response:
            graph.will("messages", *faults)
            answer = await gateway.try_call("POST", "message/sendText/shop", body)
            assert answer.status_code == status_code, answer.text
            return answer

        limit = {"error": {"message": "(#130429) Rate limit hit", "code": 130429}}
        answer = await refused(429, httpx.Response(400, json=limit, headers={"retry-after": "7"}))
        assert answer.headers["retry-after"] == "7"
        assert answer.json()["response"]["code"] == "130429"
        await refused(502, httpx.Response(500, text="oops"))
        await refused(502, httpx.ReadError("cut off"))
        await refused(502, httpx.Response(200, json={"messages": 3}))
        await refused(502, httpx.Response(200, content=b"\x1f\x8b", headers={"content-encoding": "gzip"}))
        graph.lose_answers("messages")
        answer = await refused(502)
        assert "may have been sent" in answer.text or "cannot be reached" in answer.text
        graph.closed_windows.add(CUSTOMER)
        answer = await refused(409)
        assert "The 24-hour window is over" in answer.text
        template = {"number": CUSTOMER, "name": "hello_world", "language": "en_US"}
        await gateway.call("POST", "message/sendTemplate/shop", template, status=201)
        graph.closed_windows.clear()
        server.delays["messages"] = 0.3
        await gateway.call("POST", "message/sendText/shop", body, status=201)
        assert (await gateway.call("GET", "instance/connectionState/shop"))["instance"]["state"] == "open"


async def test_tokens_that_expire_in_between(
    tmp_path: Path, graph: Graph, meta: tuple[Server, str], http: httpx.AsyncClient
) -> None:
    body = {"number": CUSTOMER, "text": "hi"}
    async with gateway_at(tmp_path, meta[1]) as gateway:
        needed = await gateway.call(
            "POST", "instance/create", {"instanceName": "x", "integration": "whatsapp_cloud"}, status=400
        )
        assert "phone_number_id and access_token must be set in the options" in str(needed)
        url = await gateway.connect("shop", "whatsapp_cloud", phone_number_id=NUMBER, access_token=TOKEN)
        graph.tokens = {"EAAG-the-next-token"}
        answer = await gateway.call("POST", "message/sendText/shop", body, status=409)
        assert answer["response"]["code"] == "190"
        state = await gateway.wait_for_state("shop", "close")
        assert "Session has expired" in state["reason"], state
        assert "PATCH /instance/options/shop" in state["reason"]
        await Sender(url, http).deliver(notification(value(messages=[text_message("still here")])))
        await gateway.wait_for_event("MESSAGES_UPSERT", message={"conversation": "still here"})
        await gateway.call("PATCH", "instance/options/shop", {"access_token": "EAAG-the-next-token"})
        await gateway.wait_for_state("shop", "open")
        await gateway.call("POST", "message/sendText/shop", body, status=201)
        data = await gateway.wait_for_event("CONNECTION_UPDATE", state="open")
        assert (data["wuid"], data["profileName"]) == (f"{ACCOUNT}@s.whatsapp.net", "Acme Shop")


async def test_the_commands_of_the_page(tmp_path: Path, graph: Graph, meta: tuple[Server, str]) -> None:
    """From nothing to the first delivered message, with the commands as the page has them."""
    if not all(map(shutil.which, ("bash", "curl"))):
        pytest.skip("The commands of docs/networks/whatsapp_cloud.md need bash and curl.")
    page = re.sub(r"^ {3}", "", PAGE.read_text("utf-8"), flags=re.MULTILINE)
    blocks = [block for block in re.findall(r"```sh\n(.*?)```", page, re.DOTALL) if "curl" in block]
    async with gateway_at(tmp_path, meta[1]) as gateway:
        environment = {
            **os.environ,
            "KEY": KEY,
            "PHONE_NUMBER_ID": NUMBER,
            "WABA_ID": WABA,
            "APP_ID": APP,
            "ACCESS_TOKEN": TOKEN,
            "META_APP_SECRET": SECRET,
            "META_VERIFY_TOKEN": VERIFY_TOKEN,
        }

        async def run(script: str) -> bytes:
            for said, there in (
                ("http://127.0.0.1:8080", gateway.url),
                ("http://127.0.0.1:9000/", gateway.receiver.url),
                ("https://graph.facebook.com", meta[1]),
                ("curl ", "curl --noproxy '*' --fail-with-body -sS "),
            ):
                script = script.replace(said, there)
            done = await trio.run_process(["bash", "-euc", script], capture_stdout=True, env=environment)
            return done.stdout

        create, *tell_meta, answer, template = blocks
        connected = (await run(create)).decode()
        assert '"state":"open"' in connected
        environment["INGEST_URL"] = re.findall(r'"ingestUrl":"([^"]*)"', connected)[-1]
        for command in tell_meta:
            assert await run(command) == b'{"success":true}'
        assert graph.callbacks == {APP: environment["INGEST_URL"], NUMBER: environment["INGEST_URL"]}
        assert graph.is_subscribed
        await run(f'curl {meta[1]}/write -d \'{{"text": "Are you open?"}}\'')
        await gateway.wait_for_event("MESSAGES_UPSERT", message={"conversation": "Are you open?"})
        await run(answer)
        await run(template)
        await gateway.wait_for_event("MESSAGES_UPDATE", keyId=graph.sent[1]["id"], status="READ")
    assert [sent["type"] for sent in graph.sent] == ["text", "template"]


async def test_files_both_ways(
    tmp_path: Path, graph: Graph, meta: tuple[Server, str], http: httpx.AsyncClient
) -> None:
    content = bytes(range(256)) * 8192  # 2 MiB
    async with gateway_at(tmp_path, meta[1]) as gateway:
        url = await gateway.connect("shop", "whatsapp_cloud", phone_number_id=NUMBER, access_token=TOKEN)
        sender = Sender(url, http)
        file = {"id": graph.add_media(content, "image/png"), "mime_type": "image/png", "caption": "look"}
        await sender.deliver(notification(value(messages=[message("image", file)])))
        data = await gateway.wait_for_event("MESSAGES_UPSERT", messageType="imageMessage")
        answer = await http.get(data["message"]["imageMessage"]["url"])
        assert (answer.content, answer.headers["content-type"]) == (content, "image/png")
        graph.media.clear()
        assert (await http.get(data["message"]["imageMessage"]["url"])).status_code == 404
        voice = {"number": CUSTOMER, "audio": "T2dnUw=="}
        sent = await gateway.call("POST", "message/sendWhatsAppAudio/shop", voice, status=201)
        [kept] = graph.media.values()
        assert (kept.content, kept.mimetype) == (b"OggS", "audio/ogg")
        assert graph.sent[0]["audio"]["voice"] is True
        assert (await http.get(sent["message"]["audioMessage"]["url"])).content == b"OggS"
