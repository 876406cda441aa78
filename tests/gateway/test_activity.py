import trio
from trio.testing import MockClock

from tests.public.core import Metrics
from tests.public.operations import Activity


async def test_what_was_delivered_in_the_last_minute(autojump_clock: MockClock) -> None:
    metrics = Metrics()
    activity = Activity(metrics)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(activity.run)
        metrics.delivered(0.1)
        assert activity.last_minute() == 1
        await trio.sleep(45)
        metrics.delivered(0.1)
        assert activity.last_minute() == 2
        await trio.sleep(50)
        assert activity.last_minute() == 1
        await trio.sleep(50)
        assert activity.last_minute() == 0
        nursery.cancel_scope.cancel()
