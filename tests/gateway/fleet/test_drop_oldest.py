"""A node at a limit drops the oldest deliveries, which another node is sending."""

from pathlib import Path

import trio

from hookgw import DeliveryState, Event
from hookgw.testing import answer, open_receiver
from tests.gateway.fleet.test_disabled_webhooks import holds
from tests.gateway.fleet.test_two_nodes import settings_of, settled
from tests.public.app import open_gateway
from tests.public.store import DeliveryQuery
from tests.public.webhooks import RegistrationChange
from tests.support.postgres import PostgresServer
from tests.support.waits import until


def event(number: int) -> Event:
    return Event(id=f"e{number}", kind="CALL", instance="shop", data_json=b"{}", time=1.0)


async def test_what_arrives_is_delivered_and_what_was_dropped_does_not_arrive(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    with postgres.new_schema() as schema:
        limits = {"registration_deliveries": 4, "on_full": "drop_oldest"}
        settings = [
            settings_of(postgres, schema, name, port, limits=limits) for port, name in enumerate("ab", 8001)
        ]
        async with (
            open_receiver() as receiver,
            open_gateway(settings[0], base=tmp_path) as a,
            open_gateway(settings[1], base=tmp_path) as b,
        ):
            receiver.will(answer(wait=2.0))
            await settled(a, b)
            owner, other = (a, b) if holds(a, "shop") else (b, a)
            await owner.instances.create("shop", webhook=RegistrationChange(url=receiver.url))
            await until(lambda: other.registrations.find("shop") is not None)
            await other.events.accept([event(number) for number in range(4)])
            with trio.fail_after(10):
                await receiver.wait_for(1)
            # The oldest is in flight, and the next one in the memory of its lane.
            await other.events.accept([event(number) for number in range(4, 6)])
            await until(lambda: owner.backlog.count == other.backlog.count == 0)
            page = await owner.store.list_deliveries(DeliveryQuery(instance="shop"))
            found = {one.event_id: one.state for one in page.deliveries}
        arrived = [str(name) for name in receiver.ids]
        assert arrived == sorted(set(arrived))
        assert arrived[0] == "e0"
        assert arrived[-4:] == ["e2", "e3", "e4", "e5"]
        # e1 arrives if its node is slow to hear of it. What is recorded is right in any case.
        assert found == {
            f"e{number}": DeliveryState.DELIVERED if f"e{number}" in arrived else DeliveryState.DEAD
            for number in range(6)
        }
