"""The log of events on two nodes: any of them lists what both have accepted."""

from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from tests.gateway.fleet.test_two_nodes import KEY, OF_A, OF_B, Node, two_nodes
from tests.support.postgres import PostgresServer
from tests.support.stores import index_log


async def read(asked: Node, path: str, *, key: str = KEY, **query: Any) -> tuple[list[str], str | None]:
    """Return a page of the log: the ids of its events, oldest first, and the cursor."""
    query = {"order": "oldest", "limit": 3, **query}
    page = await asked.call("GET", f"{path}?{urlencode(query)}", key=key)
    return [event["id"] for event in page["events"]], page["cursor"]


async def read_all(asked: list[Node], path: str, **query: Any) -> list[str]:
    """Return all ids, each page from the next of these nodes."""
    found, cursor = await read(asked[0], path, **query)
    number = 0
    while cursor is not None:
        number += 1
        page, cursor = await read(asked[number % len(asked)], path, cursor=cursor, **query)
        found += page
    return found


async def test_a_list_has_the_events_of_both_nodes(
    postgres: PostgresServer, schema: str, tmp_path: Path
) -> None:
    """Over both in one order, of one instance from either node, page by page from one and the other."""
    async with two_nodes(postgres, schema, tmp_path) as (a, b):
        for name in (OF_A, OF_B):
            await a.call("POST", "/instance/create", {"instanceName": name}, status=201)
        expected = []
        for number in range(8):
            asked, name = (a, b)[number % 2], (OF_A, OF_B)[number // 2 % 2]
            chat = f"55119888877{number % 2}@s.whatsapp.net"
            event = {"event": "CALL", "data": {"chatId": chat, "n": number}, "id": f"e{number}"}
            await asked.call("POST", f"/event/emit/{name}", event, status=202)
            expected.append(event["id"])
        for nodes in ([a, b], [b, a]):
            assert await read_all(nodes, "/event/list", kind="CALL") == expected
            for place, name in enumerate((OF_A, OF_B)):
                ours = [one for number, one in enumerate(expected) if number // 2 % 2 == place]
                assert await read_all(nodes, f"/event/list/{name}", kind="CALL") == ours
            # Whether the index has them or not yet.
            assert await read_all(nodes, f"/event/list/{OF_B}", chat="551198888771") == ["e3", "e7"]
            await index_log(nodes[0].gateway.store)
        found = await b.call("GET", f"/event/find/{OF_A}/e1")
        assert (found["event"]["id"], found["note"]) == ("e1", "No webhook wanted it.")
