"""A webhook of the configuration that one node disables is disabled on all of them."""

from pathlib import Path

from hookgw import DeliveryState, Event, Gateway, Registration
from hookgw.testing import answer, open_receiver
from tests.gateway.fleet.test_two_nodes import settings_of, settled
from tests.public.app import open_gateway
from tests.public.records import new_event_id
from tests.public.store import DeliveryQuery
from tests.support.postgres import PostgresServer
from tests.support.waits import until


def event(instance: str) -> Event:
    return Event(id=new_event_id(1.0), kind="CALL", instance=instance, data_json=b"{}", time=1.0)


def webhook(gateway: Gateway) -> Registration:
    found = gateway.registrations.by_id("global_all")
    assert found is not None
    return found


async def reported(gateway: Gateway) -> list[tuple[str, str]]:
    """What this node alone reports as problems."""
    return [(one.kind, one.label) for one in (await gateway.views.overview(None, 10)).problems]


def holds(gateway: Gateway, name: str) -> bool:
    assert gateway.fleet is not None
    return gateway.fleet.holds(name)


async def test_a_webhook_that_is_gone_is_disabled_on_all_nodes_until_one_of_them_starts(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    with postgres.new_schema() as schema:
        async with open_receiver(default=answer(410)) as receiver:
            block = {"url": receiver.url, "label": "all", "ordering": "url"}
            settings = [
                settings_of(postgres, schema, name, port, global_webhooks=(block,))
                for port, name in enumerate("ab", 8001)
            ]
            async with open_gateway(settings[0], base=tmp_path) as a:
                async with open_gateway(settings[1], base=tmp_path) as b:
                    await settled(a, b)
                    # The node that has the webhook hears the 410; the other one accepts.
                    owner, other = (a, b) if holds(a, webhook(a).id) else (b, a)
                    at_home = next(str(number) for number in range(40) if holds(other, str(number)))
                    await other.instances.create(at_home)
                    await other.events.accept([event(at_home)])
                    await until(lambda: not webhook(other).enabled)
                    assert webhook(other).disabled_reason == webhook(owner).disabled_reason
                    assert "410" in str(webhook(other).disabled_reason)
                    await other.events.accept([event(at_home)])
                    found = await other.store.list_deliveries(DeliveryQuery(instance=at_home))
                    assert [one.state for one in found.deliveries] == [DeliveryState.DEAD]
                    assert len(receiver.requests) == 1
                    # Both know that it is disabled; the one that has it reports it.
                    assert await reported(owner) == [("webhook_disabled", "all")]
                    assert await reported(other) == []
                assert not webhook(a).enabled
                await until(lambda: holds(a, webhook(a).id))
                assert await reported(a) == [("webhook_disabled", "all")]
                # The start of any node is the next start.
                async with open_gateway(settings[1], base=tmp_path) as b:
                    assert webhook(b).enabled
                    await until(lambda: webhook(a).enabled)
                    assert webhook(a).disabled_reason is None
