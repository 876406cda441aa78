"""What is reported of a lane that one delivery holds up."""

from typing import Any

import pytest

from hookgw.testing import GatewayKit, Received, Receiver, answer
from tests.gateway.test_pending import emit
from tests.public.records import Ordering, advice_for

pytestmark = pytest.mark.usefixtures("hookgw_clock")


def refuse_anas_first(request: Received) -> Any:
    return answer(502) if request.event_id == "shop-0" else answer()


@pytest.mark.parametrize("ordering", [Ordering.URL, Ordering.CHAT])
async def test_log_lane_and_overview_name_both_remedies(
    hookgw_gateway: GatewayKit,
    hookgw_receiver: Receiver,
    capsys: pytest.CaptureFixture[str],
    ordering: Ordering,
) -> None:
    gateway = hookgw_gateway.gateway
    hookgw_receiver.default = refuse_anas_first
    await hookgw_gateway.register(hookgw_receiver.url, ordering=ordering, concurrency=3)
    await emit(hookgw_gateway, 310)
    for _ in range(16):
        await hookgw_gateway.advance(60)
        # Where there are lanes beside it, they deliver, and the webhook is not failing on the whole.
        await hookgw_gateway.emit("CALL", {"remoteJid": "eva"})
        await hookgw_gateway.settled()
    view = await gateway.views.overview(None, 20)
    (problem,) = view.problems
    dead = (await gateway.history.find("shop", "shop-0")).summary.id
    assert problem.delivery == f"shop/{dead}"
    for text in (problem.why, capsys.readouterr().out):
        assert f"skip it: hookgw delivery cancel shop {dead}" in text
        assert "retry.maxAge" in text
    assert "502" in problem.why
    assert [one.delivery for one in (await gateway.views.overview(("shop",), 20)).problems] == [
        f"shop/{dead}"
    ]
    assert (await gateway.views.overview(("bar",), 20)).problems == []
    await gateway.registrations.pause("shop")
    await hookgw_gateway.settled()
    assert (await gateway.views.overview(None, 20)).problems == []
    await gateway.registrations.resume("shop")
    await gateway.deliveries.cancel_one("shop", dead)
    await hookgw_gateway.settled()
    assert (await gateway.views.overview(None, 20)).problems == []
    assert "one delivery holds its lane up" not in capsys.readouterr().out
    assert gateway.backlog.count == 0


async def test_the_overview_says_it_as_soon_as_the_lane_does(
    hookgw_gateway: GatewayKit, hookgw_receiver: Receiver
) -> None:
    gateway = hookgw_gateway.gateway
    hookgw_receiver.default = refuse_anas_first
    await hookgw_gateway.register(hookgw_receiver.url)
    await emit(hookgw_gateway, 310)
    await hookgw_gateway.settled()
    said = []
    for _ in range(100):
        await hookgw_gateway.advance(10)
        await hookgw_gateway.settled()
        (lane,) = gateway.lanes()
        (problem,) = (await gateway.views.overview(None, 20)).problems
        advice = advice_for(lane, gateway.clock.steady())
        assert problem.why == " ".join(filter(None, [lane.last_error, advice]))
        said.append(advice is not None)
    # The waits grow to 5 m: an attempt just after the tenth minute would prove nothing.
    assert said == sorted(said)
    assert set(said) == {False, True}
