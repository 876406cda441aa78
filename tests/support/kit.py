"""What many tests of a gateway ask of its kit."""

from hookgw.testing import GatewayKit
from tests.public.records import DeliveryState
from tests.public.store import DeliveryQuery, DeliverySummary


async def emit_many(kit: GatewayKit, count: int, *, instance: str = "shop") -> list[str]:
    """Emit events; return their ids."""
    return [(await kit.emit("CALL", {"n": n}, instance=instance)).id for n in range(count)]


async def deliveries_of(kit: GatewayKit, instance: str) -> list[DeliverySummary]:
    """Return all deliveries of an instance as they are in the store, the newest first."""
    await kit.gateway.store.flush()
    page = await kit.gateway.store.list_deliveries(DeliveryQuery(instance=instance, limit=1000))
    return list(page.deliveries)


async def states(kit: GatewayKit, instance: str = "shop") -> dict[str, DeliveryState]:
    """Return the states of the deliveries by event."""
    return {delivery.event_id: delivery.state for delivery in await deliveries_of(kit, instance)}


async def states_in_order(kit: GatewayKit, instance: str = "shop") -> list[DeliveryState]:
    """Return the states of the deliveries, the newest first."""
    return [delivery.state for delivery in await deliveries_of(kit, instance)]
