"""Changes that complete once they have started."""

import pytest
import trio
from trio.testing import MockClock

from hookgw import Conflict, Unavailable
from hookgw.testing import GatewayKit, Receiver
from tests.public.core import DEADLINE, completes
from tests.public.webhooks import RegistrationChange


async def test_a_change_completes_although_its_caller_is_cancelled(autojump_clock: MockClock) -> None:
    done = []

    @completes
    async def change(name: str, *, seconds: float) -> str:
        await trio.sleep(seconds)
        done.append(name)
        return name

    with trio.move_on_after(1) as scope:
        assert await change("a", seconds=5) == "a"
        await trio.lowlevel.checkpoint()
    assert scope.cancelled_caught
    assert done == ["a"]


async def test_a_change_that_hangs_fails(autojump_clock: MockClock) -> None:
    @completes
    async def change() -> None:
        await trio.sleep_forever()

    began = trio.current_time()
    with pytest.raises(Unavailable, match="did not complete within 30 s; repeat it"):
        await change()
    assert trio.current_time() - began == DEADLINE


async def test_errors_pass_through() -> None:
    @completes
    async def change() -> None:
        await trio.lowlevel.checkpoint()
        raise Conflict("no")

    with pytest.raises(Conflict, match="no"):
        await change()


async def test_a_change_is_finished_where_its_caller_is_gone(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    await hookgw_gateway.gateway.instances.create("shop")
    change = RegistrationChange(url=hookgw_receiver.url)
    with trio.CancelScope() as scope:
        scope.cancel()
        await hookgw_gateway.gateway.registrations.set("shop", "default", change)
    assert hookgw_gateway.gateway.registrations.find("shop") is not None
