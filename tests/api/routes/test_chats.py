"""``/chat``: messages, files, pictures and numbers, from the history and from the network."""

import base64
from typing import Any, ClassVar

import httpx
import msgspec
import pytest

from hookgw import Gateway, MediaSink, MessageKey, MessageQuery, NetworkRefused, NewEvent, Session
from hookgw.testing import FakeConnector
from tests.api.test_app import shape_of
from tests.public.config import MediaSettings, Settings
from tests.public.kernel import Duration, Size
from tests.public.webhooks import RegistrationChange

ANA, GROUP = "5511988887777@s.whatsapp.net", "120363001@g.us"


class Keeping(FakeConnector):
    """A connector of a network that keeps messages itself."""

    answer: ClassVar[dict[str, Any]] = {"messages": {"total": 1, "pages": 1, "currentPage": 1, "records": []}}
    asked: MessageQuery | None = None

    async def find_messages(self, session: Session, query: MessageQuery) -> dict[str, Any]:
        self.asked = query
        return self.answer

    async def media_reference(self, session: Session, key: MessageKey) -> str | None:
        return f"{key.remote_jid} {key.id}" if key.id == "P1" else None


@pytest.fixture
def plugins(connector: FakeConnector) -> dict[str, object]:
    return {"fake": connector}


@pytest.fixture
async def gateway(gateway: Gateway) -> Gateway:
    await gateway.instances.create("loja1", integration="fake")
    await gateway.instances.connect("loja1")
    await gateway.registrations.set("loja1", "default", RegistrationChange(url="http://127.0.0.1:9/x"))
    return gateway


def message(id_: str, chat: str = ANA, *, at: int = 1000, **more: Any) -> dict[str, Any]:
    key = {"remoteJid": chat, "fromMe": False, "id": id_, **more.pop("key", {})}
    shown = {"message": {"conversation": id_}, "messageType": "conversation", "messageTimestamp": at}
    return {"key": key, "pushName": "Ana", **shown, **more}


async def tell(client: httpx.AsyncClient, *events: tuple[str, Any]) -> None:
    body = [{"event": kind, "data": data} for kind, data in events]
    assert (await client.post("/event/emit/loja1", json=body)).status_code == 202


@pytest.fixture
async def heard(client: httpx.AsyncClient) -> None:
    own = {"fromMe": True, "remoteJid": ANA.replace("@s.whatsapp.net", ":7@s.whatsapp.net")}
    picture = {"imageMessage": {"mimetype": "image/png"}}
    await tell(
        client,
        ("MESSAGES_UPSERT", message("A", at=1000, source="android", contextInfo={"stanzaId": "Z"})),
        ("MESSAGES_UPSERT", message("B", GROUP, at=2000, message=picture, messageType="imageMessage")),
        ("SEND_MESSAGE", message("C", key=own, at=3000)),
        ("MESSAGES_UPDATE", {"keyId": "C", "remoteJid": ANA, "fromMe": True, "status": "DELIVERY_ACK"}),
        # As Evolution API 1 tells it.
        ("MESSAGES_UPDATE", {"id": "C", "remoteJid": ANA, "fromMe": True, "status": "READ", "owner": "shop"}),
        ("MESSAGES_UPSERT", message("C", key=own, at=3000)),
        ("MESSAGES_UPSERT", message("D", "1@lid", key={"remoteJidAlt": ANA}, at=4000)),
        ("MESSAGES_UPDATE", {"id": ["C"], "remoteJid": ANA, "fromMe": True, "status": "PLAYED"}),
        ("MESSAGES_UPSERT", {"key": {"id": 5}}),
    )


async def test_messages_are_found_as_evolution_api_shows_them(
    client: httpx.AsyncClient, gateway: Gateway, heard: None
) -> None:
    answer = await client.post("/chat/findMessages/loja1", json={"where": {"key": {"id": "A"}}})
    instance = gateway.instances.get("loja1")
    assert answer.status_code == 200
    assert answer.json()["messages"] == {
        "total": 1,
        "pages": 1,
        "currentPage": 1,
        "records": [
            {
                "id": "A",
                "key": {"remoteJid": ANA, "fromMe": False, "id": "A"},
                "pushName": "Ana",
                "messageType": "conversation",
                "message": {"conversation": "A"},
                "messageTimestamp": 1000,
                "instanceId": instance.id,
                "source": "android",
                "contextInfo": {"stanzaId": "Z"},
                "MessageUpdate": [],
            }
        ],
    }


async def test_edited_and_deleted_messages_are_found_as_they_are_now(client: httpx.AsyncClient) -> None:
    own = "5511900000000@s.whatsapp.net"
    edit = {"type": "MESSAGE_EDIT", "editedMessage": {"conversation": "B, edited"}}
    await tell(
        client,
        ("MESSAGES_UPSERT", message("A")),
        ("MESSAGES_UPSERT", message("B")),
        # As Evolution API has it: the key is the one that the author sees.
        ("MESSAGES_EDITED", {"key": {"remoteJid": own, "fromMe": True, "id": "B"}, **edit}),
        ("MESSAGES_EDITED", {"key": {"remoteJid": own, "fromMe": True, "id": "A"}, "type": "REVOKE"}),
        ("MESSAGES_DELETE", {"remoteJid": ANA, "fromMe": False, "id": "A"}),
        # Not a change of any message.
        ("MESSAGES_EDITED", {"key": {"remoteJid": own, "id": "T"}, "type": "EPHEMERAL_SETTING"}),
    )
    found = (await client.post("/chat/findMessages/loja1", json={})).json()["messages"]
    assert [(one["key"]["remoteJid"], one["message"], one["MessageUpdate"]) for one in found["records"]] == [
        (ANA, {"conversation": "B, edited"}, [{"status": "EDITED"}]),
        (ANA, {"conversation": "A"}, [{"status": "DELETED"}]),
    ]
    [chat] = (await client.post("/chat/findChats/loja1")).json()
    assert chat["remoteJid"] == ANA
    last = chat["lastMessage"]
    assert (last["id"], last["message"], last["status"]) == ("B", {"conversation": "B, edited"}, "EDITED")


async def test_a_time_is_found_in_every_form(client: httpx.AsyncClient) -> None:
    client.event_hooks = {}  # the schema of the kind wants whole seconds
    forms: list[Any] = [1_700_000_000, "1700000000", 1_700_000_000_000, 1_700_000_000.0]
    forms += [{"low": 1_700_000_000, "high": 0, "unsigned": True}, None, "x"]
    await tell(
        client,
        *(
            ("MESSAGES_UPSERT", message(str(number), messageTimestamp=form))
            for number, form in enumerate(forms)
        ),
    )
    body = {"where": {"messageTimestamp": {"gte": 1_699_999_999, "lte": 1_700_000_000}}}
    found = (await client.post("/chat/findMessages/loja1", json=body)).json()["messages"]["records"]
    assert [(one["id"], one["messageTimestamp"]) for one in found] == [
        (id_, 1_700_000_000) for id_ in "43210"
    ]


@pytest.mark.parametrize("chat", [ANA, "5511988887777", "1@lid", "2@lid"])
@pytest.mark.parametrize(
    ("other", "in_group"), [("remoteJidAlt", "participantAlt"), ("senderPn", "participantPn")]
)
async def test_messages_with_a_hidden_id_alone_are_those_of_the_number(
    client: httpx.AsyncClient, chat: str, other: str, in_group: str
) -> None:
    client.event_hooks = {}
    await tell(
        client,
        ("MESSAGES_UPSERT", message("A", "1@lid", at=1000)),
        ("MESSAGES_UPSERT", message("B", "1@lid", key={other: ANA}, at=2000)),
        (
            "MESSAGES_UPSERT",
            message("C", GROUP, key={"participant": "2@lid", in_group: ANA}, at=3000),
        ),  # says whose 2@lid is
        ("MESSAGES_UPSERT", message("D", ANA, at=4000)),
        ("MESSAGES_UPSERT", message("E", "1@lid", at=5000)),
        ("MESSAGES_UPSERT", message("F", "2@lid", at=6000)),
        ("MESSAGES_UPSERT", message("G", "3@lid", at=7000)),  # somebody else
    )
    body = {"where": {"key": {"remoteJid": chat}}, "offset": 2, "page": 1}
    found = [
        (await client.post("/chat/findMessages/loja1", json={**body, "page": page})).json()
        for page in (1, 2, 3)
    ]
    assert [one["id"] for page in found for one in page["messages"]["records"]] == list("FEDBA")
    assert {page["messages"]["total"] for page in found} == {5}


@pytest.mark.parametrize(("chat", "ids"), [("status@broadcast", "DB"), (ANA, "CA"), ("1@lid", "CA")])
async def test_a_status_post_with_its_writers_number_is_no_message_of_their_chat(
    client: httpx.AsyncClient, chat: str, ids: str
) -> None:
    client.event_hooks = {}
    posted = {"participant": "1@lid", "remoteJidAlt": ANA}  # as Baileys 7 has it
    await tell(
        client,
        ("MESSAGES_UPSERT", message("A", ANA, at=1000)),
        ("MESSAGES_UPSERT", message("B", "status@broadcast", key=posted, at=2000)),
        ("MESSAGES_UPSERT", message("C", "1@lid", at=3000)),
        ("MESSAGES_UPSERT", message("D", "status@broadcast", key={"participant": "2@lid"}, at=4000)),
    )
    body = {"where": {"key": {"remoteJid": chat}}}
    found = (await client.post("/chat/findMessages/loja1", json=body)).json()["messages"]["records"]
    assert [one["id"] for one in found] == list(ids)


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (None, "DCBA"),
        ({}, "DCBA"),
        ({"where": {}, "page": 0, "offset": 0}, "DCBA"),
        ({"where": {"key": {"remoteJid": ANA}}}, "DCA"),
        ({"where": {"key": {"remoteJid": "5511988887777@c.us"}}}, "DCA"),
        ({"where": {"remoteJid": "5511988887777"}}, "DCA"),
        ({"where": {"key": {"remoteJid": "1@lid"}}}, "DCA"),
        ({"where": {"key": {"remoteJid": "1:9@lid"}}}, "DCA"),
        ({"where": {"key": {"remoteJidAlt": ANA}}}, "DCA"),
        ({"where": {"key": {"fromMe": True}}}, "C"),
        ({"where": {"key": {"fromMe": False}}}, "DBA"),
        ({"where": {"fromMe": False}}, "DBA"),
        ({"where": {"fromMe": False, "key": {"fromMe": True}}}, "C"),
        ({"where": {"messageType": "imageMessage"}}, "B"),
        ({"where": {"id": "B"}}, "B"),
        ({"where": {"id": "B", "key": {"id": "A"}}}, ""),
        ({"where": {"source": "android"}}, "A"),
        ({"where": {"messageTimestamp": {"gte": 2000, "lte": 3000}}}, "CB"),
        ({"where": {"messageTimestamp": {"gte": "1970-01-01T00:50:00Z"}}}, "DC"),
        ({"where": {"messageTimestamp": {"lte": "1970-01-01"}}}, ""),
        ({"where": {"messageTimestamp": {"gte": "3000", "lte": 2_000_000_000_000}}}, "DC"),
        ({"page": 1, "offset": 3}, "DCB"),
        ({"page": 2, "offset": 3}, "A"),
        ({"page": 3, "offset": 3}, ""),
        ({"where": {"key": {"id": "nobody"}}}, ""),
    ],
)
async def test_messages_by_filter(client: httpx.AsyncClient, heard: None, body: Any, found: str) -> None:
    client.event_hooks = {}  # the document names one form of a time
    answer = await client.post("/chat/findMessages/loja1", json=body)
    records = answer.json()["messages"]["records"]
    assert "".join(one["id"] for one in records) == found
    statuses = {one["id"]: [update["status"] for update in one["MessageUpdate"]] for one in records}
    assert statuses.get("C", ["READ", "DELIVERY_ACK"]) == ["READ", "DELIVERY_ACK"]


async def test_ids_of_messages_that_are_unique_in_a_chat_only(client: httpx.AsyncClient) -> None:
    # As Telegram's: two groups each have a message 5.
    for chat in ("-1001", "-1002"):
        file = {"imageMessage": {"mimetype": "image/png"}, "base64": base64.b64encode(chat.encode()).decode()}
        await tell(client, ("MESSAGES_UPSERT", message("5", chat, message=file, messageType="imageMessage")))
    read = {"keyId": "5", "remoteJid": "-1001", "fromMe": True, "status": "READ"}
    await tell(client, ("MESSAGES_UPDATE", read))
    shown = (await client.post("/chat/findMessages/loja1")).json()["messages"]
    assert [one["key"]["remoteJid"] for one in shown["records"]] == ["-1002", "-1001"]
    assert [[update["status"] for update in one["MessageUpdate"]] for one in shown["records"]] == [
        [],
        ["READ"],
    ]
    for chat in ("-1001", "-1002"):
        key = {"remoteJid": chat, "id": "5"}
        answer = await client.post("/chat/getBase64FromMediaMessage/loja1", json={"message": {"key": key}})
        assert base64.b64decode(answer.json()["base64"]).decode() == chat


async def test_the_file_of_a_person_is_found_by_any_name(client: httpx.AsyncClient) -> None:
    file = {"imageMessage": {"mimetype": "image/png"}, "base64": "aGk="}
    await tell(client, ("MESSAGES_UPSERT", message("A", "1@lid", message=file)))
    for key in ({"id": "A"}, {"id": "A", "remoteJid": "1@lid"}, {"id": "A", "remoteJid": ANA}):
        answer = await client.post("/chat/getBase64FromMediaMessage/loja1", json={"message": {"key": key}})
        assert answer.status_code == 201


async def test_pages_are_counted(client: httpx.AsyncClient, heard: None) -> None:
    body = {"page": 2, "offset": 3}
    shown = (await client.post("/chat/findMessages/loja1", json=body)).json()["messages"]
    assert (shown["total"], shown["pages"], shown["currentPage"]) == (4, 2, 2)


async def test_messages_without_a_connector(client: httpx.AsyncClient, gateway: Gateway) -> None:
    await gateway.instances.create("loja2")
    await gateway.registrations.set("loja2", "default", RegistrationChange(url="http://127.0.0.1:9/x"))
    event = {"event": "MESSAGES_UPSERT", "data": message("A")}
    assert (await client.post("/event/emit/loja2", json=event)).status_code == 202
    shown = (await client.post("/chat/findMessages/loja2")).json()["messages"]
    assert [one["id"] for one in shown["records"]] == ["A"]


async def test_messages_beyond_a_mebibyte_are_empty(client: httpx.AsyncClient) -> None:
    large = {"conversation": "x" * 500_000}
    for id_ in "ABC":
        await tell(client, ("MESSAGES_UPSERT", message(id_, message=large)))
    records = (await client.post("/chat/findMessages/loja1")).json()["messages"]["records"]
    assert [len(one["message"].get("conversation", "")) for one in records] == [500_000, 500_000, 0]


@pytest.mark.parametrize(
    "body",
    [
        5,
        {"where": 5},
        {"where": {"key": 5}},
        {"where": {"key": {"fromMe": "true"}}},
        {"where": {"messageTimestamp": {"gte": "yesterday"}}},
        {"where": {"messageTimestamp": {"lte": True}}},
        {"page": -1},
        {"offset": 1001},
    ],
)
async def test_a_bad_query_of_messages(client: httpx.AsyncClient, body: Any) -> None:
    assert (await client.post("/chat/findMessages/loja1", json=body)).status_code == 400


class TestOfANetworkThatKeepsMessages:
    @pytest.fixture
    def connector(self) -> Keeping:
        return Keeping()

    async def test_it_is_asked(self, client: httpx.AsyncClient, connector: Keeping) -> None:
        where = {"key": {"id": "A", "fromMe": False}, "messageType": "x", "id": "c0", "source": "web"}
        answer = await client.post("/chat/findMessages/loja1", json={"where": where, "page": 2, "offset": 7})
        assert answer.json() == connector.answer
        assert connector.asked == MessageQuery(
            id="A", from_me=False, message_type="x", page=2, size=7, record_id="c0", source="web"
        )

    async def test_erased_persons_are_left_out(
        self, client: httpx.AsyncClient, connector: Keeping, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        records = [message("A"), message("B", GROUP, key={"participant": ANA}), message("C", GROUP)]
        page = {"total": 3, "pages": 1, "currentPage": 1, "records": records}
        monkeypatch.setattr(connector, "answer", {"messages": page}, raising=False)
        erased = await client.post("/event/erase/loja1", json={"remoteJid": ANA})
        assert erased.status_code == 200
        shown = (await client.post("/chat/findMessages/loja1")).json()["messages"]
        assert [one["key"]["id"] for one in shown["records"]] == ["C"]
        assert shown["total"] == 3

    async def test_while_it_is_not_connected_the_history_is(
        self, client: httpx.AsyncClient, gateway: Gateway, heard: None
    ) -> None:
        await gateway.instances.logout("loja1")
        shown = (await client.post("/chat/findMessages/loja1")).json()["messages"]
        assert shown["total"] == 4

    async def test_it_says_which_file_a_message_has(
        self, client: httpx.AsyncClient, connector: Keeping
    ) -> None:
        connector.files[f"{ANA} P1"] = (b"picture", "image/png")
        picture = {"imageMessage": {"mimetype": "image/png"}}
        await tell(
            client,
            ("MESSAGES_UPSERT", message("P1", message=picture)),
            ("MESSAGES_UPSERT", message("P2", message=picture)),
        )
        assert base64.b64decode((await fetch(client, "P1")).json()["base64"]) == b"picture"
        answer = await fetch(client, "P2")
        assert answer.status_code == 400
        assert "neither its file nor a link" in shape_of(answer)[0]


async def test_a_contact_of_baileys_7_is_one_person(client: httpx.AsyncClient) -> None:
    await tell(
        client,
        ("CONTACTS_UPSERT", [{"id": "7@lid", "phoneNumber": ANA, "notify": "Ana", "imgUrl": "https://x/1"}]),
        ("CONTACTS_UPDATE", [{"id": ANA, "lid": "7@lid", "imgUrl": "changed"}]),
    )
    [contact] = (await client.post("/chat/findContacts/loja1", json={})).json()
    assert (contact["remoteJid"], contact["pushName"]) == (ANA, "Ana")
    assert contact["profilePicUrl"] == "https://x/1"


# Files.


async def fetch(client: httpx.AsyncClient, id_: str) -> httpx.Response:
    body = {"message": {"key": {"id": id_}}, "convertToMp4": False}
    return await client.post("/chat/getBase64FromMediaMessage/loja1", json=body)


async def report(connector: FakeConnector, id_: str, name: str, **described: Any) -> None:
    """Let the connector report a message with a file."""
    session = connector.session("loja1")
    url = session.media_url(id_, mimetype=described.get("mimetype", ""))
    content: dict[str, Any] = {name: {"url": url, **described}}
    if name == "documentMessage":
        content = {"documentWithCaptionMessage": {"message": content}}
    await session.emit_all([NewEvent(kind="MESSAGES_UPSERT", data=message(id_, message=content))])


@pytest.mark.parametrize("size", [0, 1, 2, 3, 65_536, 200_001])
async def test_a_file_is_streamed_as_base64(
    client: httpx.AsyncClient, connector: FakeConnector, size: int
) -> None:
    content = bytes(range(256)) * 1000
    connector.files["P1"] = (content[:size], "image/png")
    await report(
        connector, "P1", "imageMessage", mimetype="image/png", caption='A "B"', fileLength="9", height=2
    )
    answer = await fetch(client, "P1")
    assert answer.status_code == 201
    shown = answer.json()
    assert base64.b64decode(shown.pop("base64"), validate=True) == content[:size]
    assert shown == {
        "mediaType": "imageMessage",
        "fileName": "P1.png",
        "caption": 'A "B"',
        "size": {"fileLength": "9", "height": 2, "width": None},
        "mimetype": "image/png",
    }


@pytest.mark.parametrize(
    "within",
    [
        lambda file: {"templateMessage": {"hydratedTemplate": {**file, "hydratedContentText": "Your order"}}},
        lambda file: {"templateMessage": {"interactiveMessageTemplate": {"header": file}}},
        lambda file: {"highlyStructuredMessage": {"hydratedHsm": {"hydratedFourRowTemplate": file}}},
        lambda file: {"viewOnceMessage": {"message": {"interactiveMessage": {"header": file}}}},
        lambda file: {"buttonsMessage": {**file, "contentText": "Which?"}},
    ],
)
async def test_a_file_above_the_words_of_a_template_is_found(
    client: httpx.AsyncClient, connector: FakeConnector, within: Any
) -> None:
    connector.files["P1"] = (b"P", "image/png")
    session = connector.session("loja1")
    url = session.media_url("P1", mimetype="image/png")
    content = within({"imageMessage": {"url": url, "mimetype": "image/png"}})
    await session.emit_all([NewEvent(kind="MESSAGES_UPSERT", data=message("P1", message=content))])
    shown = (await fetch(client, "P1")).json()
    assert (shown["mediaType"], shown["base64"]) == ("imageMessage", base64.b64encode(b"P").decode())


async def test_a_document_has_its_name(client: httpx.AsyncClient, connector: FakeConnector) -> None:
    connector.files["D1"] = (b"%PDF", "application/pdf")
    await report(connector, "D1", "documentMessage", mimetype="application/pdf", fileName="menu.pdf")
    shown = (await fetch(client, "D1")).json()
    assert (shown["mediaType"], shown["fileName"], shown["caption"]) == ("documentMessage", "menu.pdf", None)


async def test_a_file_inside_its_event_needs_no_network(client: httpx.AsyncClient, gateway: Gateway) -> None:
    await gateway.instances.logout("loja1")
    content = {"audioMessage": {"mimetype": "audio/ogg; codecs=opus"}, "base64": "SGVsbG8="}
    await tell(client, ("MESSAGES_UPSERT", message("V1", message=content)))
    shown = (await fetch(client, "V1")).json()
    assert (shown["base64"], shown["mimetype"]) == ("SGVsbG8=", "audio/ogg; codecs=opus")


class TestWithShortLinks:
    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        media = MediaSettings(lifetime=Duration(1), limit=Size(100))
        return msgspec.structs.replace(settings, media=media)

    async def test_a_link_that_has_expired_still_names_its_file(
        self,
        client: httpx.AsyncClient,
        connector: FakeConnector,
        gateway: Gateway,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        connector.files["P1"] = (b"x", "image/png")
        await report(connector, "P1", "imageMessage")
        link = connector.session("loja1").media_url("P1")
        wall = gateway.clock.wall() + 100
        monkeypatch.setattr(gateway.clock, "_wall", lambda: wall)
        assert (await client.get("/media/" + link.partition("/media/")[2])).status_code == 410
        assert (await fetch(client, "P1")).json()["base64"] == "eA=="

    async def test_a_file_beyond_the_limit(self, client: httpx.AsyncClient, connector: FakeConnector) -> None:
        connector.files["P1"] = (bytes(101), "image/png")
        await report(connector, "P1", "imageMessage")
        assert (await fetch(client, "P1")).status_code == 413


async def test_what_has_no_file(
    client: httpx.AsyncClient, connector: FakeConnector, gateway: Gateway, heard: None
) -> None:
    for id_, said in (("nobody", "Message not found"), ("A", "not of the media type")):
        answer = await fetch(client, id_)
        assert answer.status_code == 400
        assert said in shape_of(answer)[0]
    await report(connector, "gone", "imageMessage")
    assert (await fetch(client, "gone")).status_code == 404
    await gateway.instances.logout("loja1")
    assert (await fetch(client, "gone")).status_code == 409
    bad: list[Any] = [{}, {"message": {}}, {"message": {"key": {}}}, {"message": {"key": {"id": 5}}}]
    for body in bad:
        answer = await client.post("/chat/getBase64FromMediaMessage/loja1", json=body)
        assert (answer.status_code, len(shape_of(answer))) == (400, 1)


class TestWhenTheNetworkCutsTheFileOff:
    @pytest.fixture
    def connector(self) -> FakeConnector:
        async def send(session: Session, reference: str, sink: MediaSink) -> None:
            await sink.begin(mimetype="image/png", size=10)
            await sink.write(b"12345")

        return FakeConnector(open_media=send)

    async def test_the_connection_ends(self, client: httpx.AsyncClient, connector: FakeConnector) -> None:
        await report(connector, "P1", "imageMessage")
        with pytest.raises(httpx.RemoteProtocolError):
            await fetch(client, "P1")


# Pictures and numbers.


async def test_a_picture(client: httpx.AsyncClient, connector: FakeConnector) -> None:
    connector.pictures["55"] = "https://x/p.jpg"
    for number, url in (("55", "https://x/p.jpg"), (66, None)):
        answer = await client.post("/chat/fetchProfilePictureUrl/loja1", json={"number": number})
        assert answer.json() == {"wuid": f"{number}@fake", "profilePictureUrl": url}
    assert (await client.post("/chat/fetchProfilePictureUrl/loja1", json={})).status_code == 400
    connector.faults["find_picture"] = NetworkRefused("Too many.", status=429, retry_after=3)
    refused = await client.post("/chat/fetchProfilePictureUrl/loja1", json={"number": "55"})
    assert (refused.status_code, shape_of(refused)) == (429, ["Too many."])


async def test_the_history_knows_numbers_of_a_closed_instance(
    client: httpx.AsyncClient, gateway: Gateway, heard: None
) -> None:
    await gateway.instances.logout("loja1")

    async def ask(*numbers: str) -> httpx.Response:
        return await client.post("/chat/whatsappNumbers/loja1", json={"numbers": list(numbers)})

    known = await ask("+55 11 98888-7777", "5511988887777", "5511988887777:3@c.us", "1:9@lid", GROUP)
    assert known.json() == [
        {"number": "+55 11 98888-7777", "exists": True, "jid": ANA},
        {"number": "5511988887777", "exists": True, "jid": ANA},
        {"number": "5511988887777:3@c.us", "exists": True, "jid": ANA},
        {"number": "1:9@lid", "exists": True, "jid": "1@lid"},
        {"number": GROUP, "exists": True, "jid": GROUP},
    ]
    assert (await ask("5511988887777", "5511900000000")).status_code == 409


# What a network does not have.


class TestWithoutTheCalls:
    @pytest.fixture
    def connector(self) -> FakeConnector:
        missing = ("find_picture", "open_media", "list_groups", "find_group", "find_numbers")
        return FakeConnector(without=missing)

    @pytest.mark.parametrize(
        ("method", "path"),
        [
            ("POST", "/chat/fetchProfilePictureUrl/loja1"),
            ("POST", "/chat/getBase64FromMediaMessage/loja1"),
            ("POST", "/chat/whatsappNumbers/loja1"),
            ("GET", "/group/fetchAllGroups/loja1"),
            ("GET", "/group/findGroupInfos/loja1"),
            ("GET", "/group/participants/loja1"),
        ],
    )
    async def test_it_is_501(self, client: httpx.AsyncClient, method: str, path: str) -> None:
        assert (await client.request(method, path)).status_code == 501
        calls = (await client.get("/instance/capabilities/loja1")).json()["calls"]
        assert path.split("/")[2] not in calls
        assert {"findMessages", "sendSticker"} <= set(calls)


# Groups.


@pytest.fixture
def groups(connector: FakeConnector) -> list[dict[str, Any]]:
    people = [{"id": ANA, "admin": "admin"}, {"id": "55@s.whatsapp.net", "admin": None}]
    connector.groups = [{"id": GROUP, "subject": "Loja", "size": 2, "owner": ANA, "participants": people}]
    return connector.groups


async def test_groups(client: httpx.AsyncClient, groups: list[dict[str, Any]]) -> None:
    for value in ("true", "True", "1"):  # as in Python and PHP
        with_people = await client.get(f"/group/fetchAllGroups/loja1?getParticipants={value}")
        assert with_people.json() == groups
    for query in (
        "?getParticipants=false",
        "?getParticipants=False",
        "?getParticipants=0",
        "?getParticipants=",
        "",
    ):
        (shown,) = (await client.get(f"/group/fetchAllGroups/loja1{query}")).json()
        assert shown == {"id": GROUP, "subject": "Loja", "size": 2, "owner": ANA}
    assert (await client.get("/group/fetchAllGroups/loja1?getParticipants=2")).status_code == 400


async def test_a_group(client: httpx.AsyncClient, groups: list[dict[str, Any]]) -> None:
    found = await client.get("/group/findGroupInfos/loja1", params={"groupJid": GROUP})
    assert found.json() == groups[0]
    missing = await client.get("/group/findGroupInfos/loja1", params={"groupJid": "1@g.us"})
    assert (missing.status_code, shape_of(missing)) == (404, ["The network has no group '1@g.us'."])
    assert (await client.get("/group/findGroupInfos/loja1")).status_code == 400


async def test_who_is_in_a_group(client: httpx.AsyncClient, groups: list[dict[str, Any]]) -> None:
    found = await client.get("/group/participants/loja1", params={"groupJid": GROUP})
    assert found.json() == {"participants": groups[0]["participants"]}
    del groups[0]["participants"]
    found = await client.get("/group/participants/loja1", params={"groupJid": GROUP})
    assert found.json() == {"participants": []}
    assert (await client.get("/group/participants/loja1?groupJid=1@g.us")).status_code == 404
    assert (await client.get("/group/participants/loja1")).status_code == 400


async def test_groups_of_an_instance_that_is_not_connected(
    client: httpx.AsyncClient, gateway: Gateway
) -> None:
    await gateway.instances.logout("loja1")
    for path in ("fetchAllGroups/loja1", "findGroupInfos/loja1?groupJid=1", "participants/loja1?groupJid=1"):
        assert (await client.get(f"/group/{path}")).status_code == 409


@pytest.mark.parametrize(
    ("call", "body", "sentence"),
    [
        ("findMessages", {"wher": {}}, "wher is not a field of a search. Did you mean where?"),
        (
            "findMessages",
            {"where": {"remoteJidd": ANA}},
            "where.remoteJidd is not a field of a search. Did you mean remoteJid?",
        ),
        (
            "findMessages",
            {"where": {"key": {"remotejid": ANA}}},
            "where.key.remotejid is not a field of a search. Did you mean remoteJid?",
        ),
        (
            "findMessages",
            {"where": {"messageTimestamp": {"gt": 1000}}},
            "where.messageTimestamp.gt is not a field of a search. Did you mean gte?",
        ),
        (
            "findChats",
            {"where": {"remote_jid": ANA}},
            "where.remote_jid is not a field of a search. Did you mean remoteJid?",
        ),
        (
            "findContacts",
            {"where": {"pushname": "Ana"}},
            "where.pushname is not a field of a search. Did you mean pushName?",
        ),
    ],
)
async def test_a_misspelled_filter_does_not_find_everything(
    client: httpx.AsyncClient, call: str, body: dict[str, Any], sentence: str
) -> None:
    answer = await client.post(f"/chat/{call}/loja1", json=body)
    assert answer.status_code == 400
    assert answer.json()["response"]["message"] == [sentence]


@pytest.mark.parametrize("call", ["findMessages", "findChats", "findContacts"])
async def test_fields_that_clients_add_to_a_search_are_ignored(client: httpx.AsyncClient, call: str) -> None:
    body = {"sort": "desc", "where": {"owner": "loja1", "instanceId": "x"}}
    assert (await client.post(f"/chat/{call}/loja1", json=body)).status_code == 200
