"""``kill -9`` between and within commits: figures over time count what the tables have."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from hookgw.testing import answer
from tests.crash.engines import CHOSEN, POSTGRESQL, SQLITE, Storage
from tests.crash.stage import DEADLINE, batch, staged

pytestmark = [pytest.mark.crash, pytest.mark.timeout(DEADLINE + 10)]

ENGINES = [CHOSEN] if CHOSEN else [SQLITE, POSTGRESQL]
COUNT = """SELECT count(*) FROM events
    UNION ALL SELECT count(*) FROM deliveries WHERE state = 'delivered'
    UNION ALL SELECT count(*) FROM attempts WHERE outcome <> 'delivered'"""


@pytest.mark.parametrize("storage", ENGINES, indirect=True)
async def test_the_open_minute_is_counted_after_a_kill(tmp_path: Path, storage: Storage) -> None:
    async with staged(tmp_path, storage) as stage:
        await stage.start("settle")
        await stage.register()
        stage.receiver.will(*[answer(503)] * 3)
        with suppress(httpx.HTTPError):
            await stage.call("POST", "/event/emit/shop", batch(20))
        await stage.target.died()
        await stage.start()
        # Some are duplicates of what was stored before the kill.
        await stage.call("POST", "/event/emit/shop", batch(40))
        await stage.drained()
        await stage.target.kill()
        await stage.start()
        stored = [count for (count,) in storage.peek(COUNT)]
        assert stored[:2] == [40, 40]
        assert stored[2] > 0
        for path in ("/figures/find", "/figures/find/shop"):
            total: dict[str, Any] = (await stage.call("GET", path))["total"]
            assert [total["accepted"], total["delivered"], sum(total["failed"].values())] == stored
