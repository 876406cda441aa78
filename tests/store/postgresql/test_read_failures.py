"""What the server cannot read any more: no events are accepted over it, until it can."""

import pytest
from psycopg import Connection
from trio.testing import MockClock

from tests.public.concurrency import Clock
from tests.public.kernel import StorageUnavailable
from tests.public.postgresql import Server, open_store
from tests.public.store import REMEMBERED
from tests.store.support import LANE, refusal_of, to

# As the server reports a page or an index that is damaged, a disk with an error, a file that is missing.
BREAK = """ALTER TABLE events RENAME TO whole;
CREATE FUNCTION broken() RETURNS boolean LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'invalid page in block 7' USING ERRCODE = '{code}'; END $$;
CREATE VIEW events AS SELECT * FROM whole WHERE broken()"""
MEND = "DROP VIEW events; DROP FUNCTION broken(); ALTER TABLE whole RENAME TO events"


@pytest.mark.parametrize("code", ["XX001", "XX002", "58030", "58P01"])
async def test_what_cannot_be_read_stops_events_and_readiness_until_it_can(
    database: Server, connection: Connection, mock_clock: MockClock, code: str
) -> None:
    async with open_store(database, clock=Clock()) as store:
        await store.append(to("e1"))
        connection.execute(BREAK.format(code=code))
        with pytest.raises(StorageUnavailable, match="invalid page"):
            await store.read_lane(LANE, 0, 10, 10**6)
        for refused in (store.check, lambda: store.append(to("e2"))):
            with pytest.raises(StorageUnavailable, match=r"invalid page.*no events are accepted"):
                await refused()
        assert refusal_of(store) is not None
        connection.execute(MEND)
        mock_clock.jump(REMEMBERED)
        await store.check()
        assert await store.append(to("e2")) == [True]
