"""The tabs of an instance, its chats, and the codes that wait to be scanned, over HTTP."""

import html
import re
from itertools import count
from typing import Any
from urllib.parse import quote, unquote

import msgspec
import pytest

from hookgw import ConnectionState, Event, Gateway, Right
from tests.api.test_route_walk import add_key
from tests.dashboard.conftest import Browser, emit
from tests.dashboard.test_portal import enter
from tests.dashboard.test_streams import watching
from tests.public.config import LimitsSettings, Settings, TagLimits
from tests.public.messages import ChatSearch
from tests.public.records import Reach
from tests.public.store import EventQuery
from tests.support.disks import refuse
from tests.support.waits import until

PAGE = "/instances/loja1"
TABS = ("", "/chats", "/webhooks", "/deliveries", "/connection", "/keys", "/settings")
ANA = "5511988887777@s.whatsapp.net"
GROUP = "120363000000@g.us"
_numbers = count()


@pytest.fixture
async def loja1(gateway: Gateway) -> str:
    """An instance with the simulator, which opens at once and receives nothing."""
    await gateway.instances.create(
        "loja1", integration="simulator", options={"connect_delay": "0s", "rate": 0}, tags={"tenant": "acme"}
    )
    return "loja1"


async def write(gateway: Gateway, *messages: tuple[Any, Any], kind: str = "MESSAGES_UPSERT") -> None:
    """Accept messages, each with its key's fields or its chat, and its text or its content."""
    events = []
    for key, content in messages:
        number = next(_numbers)
        given: dict[str, Any] = {"remoteJid": key} if isinstance(key, str) else key
        data = {
            "key": {"fromMe": False, "id": f"m{number}", **given},
            "pushName": given.get("pushName"),
            "message": {"conversation": content} if isinstance(content, str) else content,
            "messageType": "conversation" if isinstance(content, str) else next(iter(content), None),
        }
        events.append(
            Event(
                id=f"evt-{number}",
                kind=kind,
                instance="loja1",
                data_json=Event.encode(data),
                time=gateway.clock.wall(),
            )
        )
    await gateway.events.accept(events)


async def connect(gateway: Gateway, name: str = "loja1") -> None:
    await gateway.instances.connect(name)
    await until(lambda: gateway.instances.connection_state(name) is ConnectionState.OPEN)


def bubbles(page: str) -> list[tuple[str, str]]:
    """Return who wrote each bubble, and its text."""
    found = re.findall(r'<li id="message-[^"]*" class="([\w-]+)">(.*?)</li>', page, re.DOTALL)
    return [
        (
            side,
            " ".join(re.sub(r"<span class=\"hidden\">.*?</span>|<time.*?</time>|<[^>]*>", " ", text).split()),
        )
        for side, text in found
    ]


def chats(page: str) -> list[str]:
    return re.findall(r'<li id="chat-([^"]*)"', page)


async def test_each_tab_is_a_page_that_says_which_it_is(browser: Browser, loja1: str) -> None:
    for tab in TABS:
        page = await browser.get(f"{PAGE}{tab}")
        assert page.status_code == 200
        [nav] = re.findall(r'<nav class="tabs".*?</nav>', page.text, re.DOTALL)
        assert re.findall(r'href="/dashboard/instances/loja1([^"]*)"', nav) == [*TABS]
        assert f'href="/dashboard{PAGE}{tab}" aria-current="page"' in nav
        assert nav.count("aria-current") == 1
    assert (await browser.get("/instances/nope/chats")).status_code == 404


async def test_a_visitor_sees_the_tabs_that_the_key_allows(
    visitor: Browser, gateway: Gateway, loja1: str
) -> None:
    reach = Reach(instances=frozenset({gateway.instances.get("loja1").id}))
    await visitor.log_in(add_key(gateway, reach, [Right.READ]))
    page = (await visitor.get(PAGE)).text
    assert f"{PAGE}/settings" in page
    for tab in ("/chats", "/keys"):
        assert f"{PAGE}{tab}" not in page
        assert (await visitor.get(f"{PAGE}{tab}")).status_code == 403
    settings = (await visitor.get(f"{PAGE}/settings")).text
    assert settings.count('<fieldset class="plain-set" disabled>') == 2
    assert ">Delete</button>" not in settings
    assert 'alt="QR code"' not in (await visitor.get(f"{PAGE}/connection")).text
    assert (await visitor.get("/codes")).status_code == 403


class TestChats:
    async def test_who_wrote_with_the_last_words(
        self, browser: Browser, gateway: Gateway, loja1: str
    ) -> None:
        await write(
            gateway,
            ({"remoteJid": ANA, "pushName": "Ana"}, "Olá"),
            (
                {"remoteJid": GROUP, "participant": ANA, "pushName": "Ana"},
                {"imageMessage": {"fileLength": "122880"}},
            ),
            ({"remoteJid": ANA, "fromMe": True}, "<script>alert(1)</script>"),
            ({"remoteJid": "99@lid", "remoteJidAlt": "5511911112222@s.whatsapp.net"}, "hidden"),
        )
        page = (await browser.get(f"{PAGE}/chats")).text
        assert chats(page) == ["5511911112222@s.whatsapp.net", ANA, GROUP]
        assert ">Ana</b>" in page
        assert 'You:</span> <span dir="auto">&lt;script&gt;alert(1)&lt;/script&gt;' in page
        assert "Image, 120 KiB" in page
        assert "group</span>" in page
        assert f"chats?name={quote(ANA, safe='')}" in page

    async def test_a_chat_has_both_directions(self, browser: Browser, gateway: Gateway, loja1: str) -> None:
        await write(gateway, (ANA, "one"), ("5511900000000@s.whatsapp.net", "of another"))
        sent = {"remoteJid": ANA, "fromMe": True, "id": "sent-1"}
        await write(gateway, (sent, "two\nlines"), kind="SEND_MESSAGE")
        await write(gateway, (sent, "two\nlines"))  # the network reports it, too
        await write(
            gateway,
            (ANA, {"documentMessage": {"fileName": "<b>.pdf", "fileLength": {"low": 2048, "high": 0}}}),
        )
        page = (await browser.get(f"{PAGE}/chats", params={"name": ANA})).text
        assert bubbles(page) == [
            ("to-me", "one"),
            ("from-me", "two lines"),
            ("to-me", "Document, 2 KiB &lt;b&gt;.pdf"),
        ]
        # A number alone is enough.
        assert bubbles((await browser.get(f"{PAGE}/chats?name=5511988887777")).text) == bubbles(page)

    async def test_a_person_with_a_hidden_number_is_one_chat(
        self, browser: Browser, gateway: Gateway, loja1: str
    ) -> None:
        await write(
            gateway,
            (ANA, "with the number"),
            ("77@lid", "with the id alone"),
            ({"remoteJid": "77@lid", "remoteJidAlt": ANA}, "with both"),
        )
        assert chats((await browser.get(f"{PAGE}/chats")).text) == [ANA]
        page = (await browser.get(f"{PAGE}/chats", params={"name": ANA})).text
        assert [text for _, text in bubbles(page)] == ["with the number", "with the id alone", "with both"]
        assert page.count('name="name" value="77@lid"') == 1

    async def test_a_message_is_as_it_was_edited_or_deleted_later(
        self, browser: Browser, gateway: Gateway, loja1: str
    ) -> None:
        await write(gateway, *(({"remoteJid": ANA, "id": id_}, f"old {id_}") for id_ in "ABC"))
        edit = {"type": 14, "editedMessage": {"conversation": "new A"}, "key": {"id": "A"}}
        await write(
            gateway,
            ({"remoteJid": ANA, "id": "E"}, {"editedMessage": {"message": {"protocolMessage": edit}}}),
            ({"remoteJid": ANA, "id": "R"}, {"protocolMessage": {"type": "REVOKE", "key": {"id": "B"}}}),
        )
        await write(gateway, ({"remoteJid": ANA, "id": "C"}, "new <C>"), kind="MESSAGES_EDITED")
        page = (await browser.get(f"{PAGE}/chats", params={"name": ANA})).text
        assert [text for _, text in bubbles(page)] == [
            "new A edited",
            "This message was deleted.",
            "new &lt;C&gt; edited",
        ]
        page = (await browser.get(f"{PAGE}/chats")).text
        assert chats(page) == [ANA]
        assert 'class="last"><span dir="auto">new &lt;C&gt; <span class="quiet">edited</span>' in page
        await write(gateway, ({"remoteJid": ANA, "id": "C"}, {}), kind="MESSAGES_DELETE")
        page = (await browser.get(f"{PAGE}/chats")).text
        assert 'class="last"><span dir="auto"><span class="quiet">This message was deleted.</span>' in page

    async def test_a_change_of_a_message_on_an_earlier_page_says_so(
        self, browser: Browser, gateway: Gateway, loja1: str
    ) -> None:
        await write(gateway, ({"remoteJid": ANA, "id": "A", "fromMe": True}, "new A"), kind="MESSAGES_EDITED")
        await write(gateway, ({"remoteJid": ANA, "id": "B"}, {}), kind="MESSAGES_DELETE")
        page = (await browser.get(f"{PAGE}/chats", params={"name": ANA})).text
        assert bubbles(page) == [
            ("from-me", "new A Edit of an earlier message"),
            ("to-me", "An earlier message was deleted."),
        ]
        assert chats((await browser.get(f"{PAGE}/chats")).text) == []

    async def test_an_edit_by_a_person_whose_chat_evolution_api_does_not_name(
        self, browser: Browser, gateway: Gateway, loja1: str
    ) -> None:
        """The key is the one that the author of the edit sees: the account is the chat, and it is theirs."""
        account = "5511900000000@s.whatsapp.net"
        edits = [
            {
                "key": {"remoteJid": account, "fromMe": True, "id": id_},
                "type": "MESSAGE_EDIT",
                "editedMessage": {"conversation": f"new {id_}"},
            }
            for id_ in ("A", "of another chat")
        ]
        old = {"key": {"remoteJid": ANA, "fromMe": False, "id": "A"}, "message": {"conversation": "old A"}}
        kinds = ("MESSAGES_UPSERT", "MESSAGES_EDITED", "MESSAGES_EDITED")
        events = [
            Event(
                id=f"edit-{number}",
                kind=kind,
                instance="loja1",
                data_json=Event.encode(data),
                time=gateway.clock.wall(),
                sender=account,
            )
            for number, (kind, data) in enumerate(zip(kinds, [old, *edits], strict=True))
        ]
        await gateway.events.accept(events)
        for name in (ANA, "5511988887777"):
            page = (await browser.get(f"{PAGE}/chats", params={"name": name})).text
            assert bubbles(page) == [("to-me", "new A edited")]
        assert bubbles((await browser.get(f"{PAGE}/chats", params={"name": account})).text) == []

    async def test_an_older_page_of_chats_has_edits_of_the_page_before(
        self, gateway: Gateway, loja1: str
    ) -> None:
        await write(gateway, ({"remoteJid": ANA, "id": "A"}, "old"))
        await write(gateway, *((f"55119{n:08}@s.whatsapp.net", "hi") for n in range(200)))
        await write(gateway, ({"remoteJid": ANA, "id": "A"}, "new"), kind="MESSAGES_EDITED")
        search = ChatSearch(gateway.history)
        first = await search.page("loja1")
        assert len(first.chats) == 199
        [_, ana] = (await search.page("loja1", first.cursor)).chats
        assert (ana.jid, ana.last_message.status) == (ANA, "EDITED")
        assert bytes(ana.last_message.message) == b'{"conversation":"new"}'

    async def test_in_a_group_each_bubble_has_its_author(
        self, browser: Browser, gateway: Gateway, loja1: str
    ) -> None:
        await write(
            gateway,
            ({"remoteJid": GROUP, "participant": ANA, "pushName": "Ana"}, "oi"),
            ({"remoteJid": GROUP, "participant": "5511900000000@s.whatsapp.net"}, "olá"),
        )
        page = (await browser.get(f"{PAGE}/chats", params={"name": GROUP})).text
        assert [text for _, text in bubbles(page)] == ["Ana oi", "5511900000000 olá"]

    async def test_a_page_of_chats_leads_to_older_ones_without_repeating_any(
        self, browser: Browser, gateway: Gateway, loja1: str
    ) -> None:
        await write(gateway, *((f"{number}@c", "hi") for number in range(250)))
        await write(gateway, ("0@c", "again"))
        page, found = (await browser.get(f"{PAGE}/chats")).text, []
        for _ in range(5):
            found += chats(page)
            older = re.search(r'rel="next" href="([^"]+)"', page)
            if older is None:
                break
            page = (await browser.http.get(html.unescape(older[1]))).text
        assert found == ["0@c", *(f"{number}@c" for number in range(249, 0, -1))]

    async def test_a_long_chat_is_read_page_by_page(
        self, browser: Browser, gateway: Gateway, loja1: str
    ) -> None:
        await write(gateway, *((ANA, f"n{number}") for number in range(60)))
        page = (await browser.get(f"{PAGE}/chats", params={"name": ANA})).text
        assert [text for _, text in bubbles(page)] == [f"n{number}" for number in range(10, 60)]
        older = re.search(r'rel="prev" href="([^"]+)"', page)
        assert older is not None
        page = (await browser.http.get(html.unescape(older[1]))).text
        assert [text for _, text in bubbles(page)] == [f"n{number}" for number in range(10)]

    async def test_what_cannot_be_sent_stays_in_the_form(
        self, browser: Browser, gateway: Gateway, loja1: str
    ) -> None:
        refused = await browser.submit(
            f"{PAGE}/chats", f"{PAGE}/chats/send", {"name": ANA, "text": "not yet", "once": "x"}
        )
        assert refused.status_code == 409
        assert "not connected" in refused.text
        assert ">not yet</textarea>" in refused.text

    async def test_a_new_message_appears_by_itself(
        self, browser: Browser, gateway: Gateway, loja1: str
    ) -> None:
        await write(gateway, (ANA, "one"))
        query = f"/dashboard/live/chats/loja1?name={quote(ANA)}"
        async with (
            watching(browser, query) as chat,
            watching(browser, "/dashboard/live/chats/loja1") as listed,
        ):
            assert bubbles((await chat.next())["data"]) == [("to-me", "one")]
            assert chats((await listed.next())["data"]) == [ANA]
            await write(gateway, (ANA, "two"))
            assert bubbles((await chat.next())["data"]) == [("to-me", "one"), ("to-me", "two")]

    async def test_a_disk_that_refuses_is_said(
        self, browser: Browser, gateway: Gateway, loja1: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(gateway.history, "list_events", refuse)
        for tab, status in (("/chats", 503), (f"/chats?name={ANA}", 503), ("/connection", 200)):
            page = await browser.get(f"{PAGE}{tab}")
            assert (page.status_code, "The disk is full." in page.text) == (status, True)


async def test_an_answer_is_sent_once_and_appears(browser: Browser, gateway: Gateway, loja1: str) -> None:
    await write(gateway, (ANA, "one"))
    await connect(gateway)
    path = f"{PAGE}/chats?name={quote(ANA, safe='')}"
    page = (await browser.get(path)).text
    fields = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', page))
    for _ in range(2):  # a second click
        sent = await browser.http.post(f"/dashboard{PAGE}/chats/send", data={**fields, "text": "two"})
        assert sent.status_code == 303
    assert unquote(sent.headers["location"]) == f"/dashboard{PAGE}/chats?name={ANA}&done=sent"
    page = (await browser.http.get(sent.headers["location"])).text
    assert bubbles(page) == [("to-me", "one"), ("from-me", "two")]
    new = {"number": "5511900000000", "text": "hi", "once": "x"}
    sent = await browser.submit(f"{PAGE}/chats", f"{PAGE}/chats/send", new)
    assert bubbles((await browser.http.get(sent.headers["location"])).text) == [("from-me", "hi")]


async def test_a_text_of_the_first_tab_is_sent_once(browser: Browser, gateway: Gateway, loja1: str) -> None:
    await connect(gateway)
    [form] = re.findall(
        rf'action="/dashboard{PAGE}/send".*?</form>', (await browser.get(PAGE)).text, re.DOTALL
    )
    fields = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', form))
    given = {**fields, "number": ANA, "text": "two"}
    for _ in range(2):  # a second click
        assert (await browser.http.post(f"/dashboard{PAGE}/send", data=given)).status_code == 303
    page = (await browser.get(f"{PAGE}/chats?name={quote(ANA, safe='')}")).text
    assert bubbles(page) == [("from-me", "two")]


async def test_a_list_of_chats_reads_no_more_than_its_part_of_a_log(
    gateway: Gateway, loja1: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of an account that one person writes to, a page does not walk the whole log to find others."""
    await write(gateway, ("5511900000000@s.whatsapp.net", "rare"))
    for _ in range(3):
        await write(gateway, *((ANA, "hi") for _ in range(1_000)))
    asked = []
    list_events = gateway.history.list_events

    async def counted(query: EventQuery, *, is_tenant: bool = True) -> Any:
        asked.append(query.limit)
        return await list_events(query)

    monkeypatch.setattr(gateway.history, "list_events", counted)
    search = ChatSearch(gateway.history)
    page = await search.page("loja1")
    assert [one.jid for one in page.chats] == [ANA]
    assert sum(asked) <= 2_000
    found, cursor = [], page.cursor
    while cursor is not None:
        page = await search.page("loja1", cursor)
        found += [one.jid for one in page.chats]
        cursor = page.cursor
    assert found == ["5511900000000@s.whatsapp.net"]


async def test_what_is_newer_than_an_older_page_of_chats_is_read_once_for_all_of_them(
    gateway: Gateway, loja1: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 200 chats, each would walk the newer part of the log, or all of it if it found nothing there."""
    await write(gateway, *((f"{number}@c", "hi") for number in range(450)))
    search = ChatSearch(gateway.history)
    first = await search.page("loja1")
    # One of them goes on while the page is looked at: it is no reason to read the rest.
    await write(gateway, *(("240@c", "again") for _ in range(500)))
    asked: list[EventQuery] = []
    list_events = gateway.history.list_events

    async def noted(query: EventQuery, *, is_tenant: bool = True) -> Any:
        if query.chat_names:
            asked.append(query)
        return await list_events(query, is_tenant=is_tenant)

    monkeypatch.setattr(gateway.history, "list_events", noted)
    page = await search.page("loja1", first.cursor)
    assert [chat.jid for chat in page.chats] == [f"{n}@c" for n in range(249, 49, -1) if n != 240]
    assert [(query.back_to, len(query.chat_names)) for query in asked] == [
        (first.cursor, 200),
        (first.cursor, 199),
    ]


async def test_a_chat_whose_newest_message_hides_the_number_is_on_its_page(
    gateway: Gateway, loja1: str
) -> None:
    """Beside an older message with the number, that one was taken for newer, and no page had the chat."""
    await write(gateway, ({"remoteJid": ANA, "remoteJidAlt": "7@lid"}, "with it"), ("7@lid", "without"))
    await write(gateway, *((f"{number}@c", "hi") for number in range(200)))
    search = ChatSearch(gateway.history)
    first = await search.page("loja1")
    assert [one.jid for one in (await search.page("loja1", first.cursor)).chats] == [ANA]
    await write(gateway, ("7@lid", "newer"))
    assert (await search.page("loja1", first.cursor)).chats == []


async def test_former_states_of_the_connection(browser: Browser, gateway: Gateway) -> None:
    await gateway.instances.create("loja1")
    for place, (state, reason) in enumerate((("open", None), ("close", 401), ("close", 401), ("open", None))):
        data = {"instance": "loja1", "state": state, "statusReason": reason, "wuid": ANA}
        event = Event(
            id=f"c{place}",
            kind="CONNECTION_UPDATE",
            instance="loja1",
            data_json=Event.encode(data),
            time=gateway.clock.wall(),
        )
        await gateway.events.accept([event])
    page = (await browser.get(f"{PAGE}/connection")).text
    table = page.partition("Former states")[2]
    assert re.findall(r'class="state (\w+)"', table) == ["open", "close", "open"]
    assert re.findall(r'number">([^<]+)</td>', table) == ["–", "401", "–"]
    facts = page.partition("<dl>")[2].partition("</dl>")[0]
    assert "state open" in facts
    assert ">since <time" in facts


async def test_a_code_to_type_is_asked_for(browser: Browser, gateway: Gateway) -> None:
    await gateway.instances.create("loja1", integration="simulator", options={"connect_delay": "1d"})
    asked = await browser.submit(f"{PAGE}/connection", f"{PAGE}/connect", {"pairing_number": "5511988887777"})
    assert asked.headers["location"] == f"/dashboard{PAGE}/connection?done=connecting"
    page = (await browser.get(f"{PAGE}/connection")).text
    assert "Or enter this code in the app" in page
    refused = await browser.submit(f"{PAGE}/connection", f"{PAGE}/connect", {"pairing_number": "x"})
    assert refused.status_code == 400


class TestSettings:
    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        limits = LimitsSettings(tags={"tenant": TagLimits(deliveries=1000, rate="20/s")})
        return msgspec.structs.replace(settings, limits=limits)

    async def test_every_setting_is_a_field(self, browser: Browser, gateway: Gateway, loja1: str) -> None:
        path = f"{PAGE}/settings"
        fields = {"reject_call": "true", "msg_call": "No calls", "wavoip_token": "sesame"}
        saved = await browser.submit(path, path, fields)
        assert saved.headers["location"] == f"/dashboard{path}?done=saved"
        stored = gateway.instances.get("loja1").settings
        assert (stored.reject_call, stored.msg_call, stored.wavoip_token) == (True, "No calls", "sesame")
        page = (await browser.get(path)).text
        assert 'value="No calls"' in page
        assert "sesame" not in page
        masked = re.search(r'name="wavoip_token"[^>]* value="([^"]+)"', page)
        assert masked is not None
        await browser.submit(path, path, {"msg_call": "", "wavoip_token": masked[1]})
        stored = gateway.instances.get("loja1").settings
        assert (stored.reject_call, stored.msg_call, stored.wavoip_token) == (False, "", "sesame")

        options = {"quiet_after": "6h", "catch_up_limit": "50", "catch_up_span": "2h", "option.rate": "0"}
        await browser.submit(path, f"{PAGE}/options", options)
        instance = gateway.instances.get("loja1")
        assert (instance.quiet_after, instance.catch_up.limit, instance.catch_up.span) == (21600, 50, 7200)
        refused = await browser.submit(path, f"{PAGE}/options", {"quiet_after": "soon"})
        assert (refused.status_code, 'value="soon"' in refused.text) == (400, True)

        assert "All instances with tenant=acme share: 1,000 pending deliveries, 20/s attempts" in " ".join(
            page.split()
        )
        await browser.submit(path, f"{PAGE}/tags", {"tags": "tenant=zoo plan=gold"})
        assert gateway.instances.get("loja1").tags == {"tenant": "zoo", "plan": "gold"}
        refused = await browser.submit(path, f"{PAGE}/tags", {"tags": "nonsense"})
        assert (refused.status_code, 'value="nonsense"' in refused.text) == (400, True)


@pytest.fixture
async def waiting(gateway: Gateway) -> list[str]:
    """Three accounts that show a code."""
    names = ["a", "b", "c"]
    for name in names:
        await gateway.instances.create(
            name, integration="simulator", options={"connect_delay": "1d"}, tags={"tenant": "acme"}
        )
        await gateway.instances.connect(name)
    return names


async def test_a_customer_scans_with_a_link(
    browser: Browser, visitor: Browser, gateway: Gateway, waiting: list[str]
) -> None:
    await gateway.instances.create("theirs", tags={"tenant": "zoo"})
    page = (await browser.get("/instances/b/connection")).text
    form = page.partition('action="/dashboard/portal-link"')[2].partition("</form>")[0]
    fields: dict[str, Any] = {}
    for name, value in re.findall(r'name="(\w+)"[^>]*? value="([^"]*)"', form):
        fields.setdefault(name, []).append(value)
    made = await browser.http.post("/dashboard/portal-link", data=fields)
    assert made.status_code == 201
    [link] = re.findall(r"<code>(.+?)</code>", made.text)
    visitor.http.cookies.clear()
    entered = await enter(visitor, link)
    assert entered.headers["location"] == "/dashboard/instances/b/connection"
    opened = (await visitor.http.get(entered.headers["location"])).text
    assert 'alt="QR code"' in opened
    assert "Let a customer scan it" not in opened
    assert (await visitor.get("/instances/a/connection")).status_code == 403
    codes = (await visitor.get("/codes?at=a")).text
    assert "1 of 1" in codes
    assert ">a<" not in codes
    assert "a shows no code" not in codes
    assert (await visitor.get("/instances/b/chats")).status_code == 403


class TestCodes:
    async def test_one_after_the_other(self, browser: Browser, gateway: Gateway, waiting: list[str]) -> None:
        assert "3 accounts wait for a scan." in (await browser.get("/")).text
        assert "Scan 3 codes</a>" in (await browser.get("/instances")).text
        path, seen = "/dashboard/codes", []
        for _ in range(4):
            page = (await browser.http.get(path)).text
            shown = re.search(r'<h2 id="code-of"><a[^>]*>(\w+)</a>', page)
            following = re.search(r'rel="next"[^>]* href="([^"]+)"', page)
            assert shown is not None
            assert following is not None
            assert page.count('alt="QR code"') == 1
            seen.append(shown[1])
            path = following[1]
        assert seen == ["a", "b", "c", "a"]

    async def test_after_a_scan_the_next_one_is_shown(
        self, browser: Browser, gateway: Gateway, waiting: list[str]
    ) -> None:
        page = (await browser.get("/codes?at=b")).text
        assert "2 of 3" in page
        async with watching(browser, "/dashboard/live/codes?at=b") as events:
            assert ">b</a>" in (await events.next())["data"]
            await _scan(gateway, "b")
            shown = (await events.next())["data"]
            assert "b is connected." in shown
            assert re.search(r'id="code-of"><a[^>]*>c</a>', shown)
        for name in ("a", "c"):
            await _scan(gateway, name)
        assert "No account waits for a scan." in (await browser.get("/codes")).text
        assert "wait for a scan" not in (await browser.get("/")).text


async def _scan(gateway: Gateway, name: str) -> None:
    """Let the account of a simulated instance be scanned."""
    await gateway.instances.change_options(name, {"connect_delay": "0s"}, is_operator=True)
    await until(lambda: gateway.instances.connection_state(name) is ConnectionState.OPEN)


class TestWebhooksOfTheConfiguration:
    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        everywhere = {"url": "http://127.0.0.1:9/x", "label": "every"}
        return msgspec.structs.replace(settings, global_webhooks=(everywhere,))

    async def test_the_deliveries_of_one_lead_to_no_page_of_it(
        self, browser: Browser, gateway: Gateway, loja1: str
    ) -> None:
        await emit(gateway, loja1)
        await gateway.store.flush()
        page = (await browser.get(f"{PAGE}/deliveries")).text
        assert ">every</td>" in page
        assert "/webhooks/every" not in page
