"""Values that cost more time to check than any other bytes."""

from itertools import cycle

from tests.isolation.attack import attack
from tests.isolation.payloads import MEGABYTE, VALUES, long_plugin_name, unknown_kinds, within
from tests.isolation.target import Target, batch, emit, event
from tests.isolation.wire import render


@attack(
    "values", "slow numbers, deep lists, many names, escapes: in events and batches, as many as are allowed"
)
async def values(target: Target) -> None:
    key = await target.tenant()
    allowed = [within(maker) for maker in VALUES.values()]
    bodies = [event(maker(MEGABYTE - 4096)) for maker in VALUES.values()]
    bodies += [event(text) for text in allowed]
    bodies += [batch([event(text)] * max(1, 15 * MEGABYTE // len(text) // 4)) for text in allowed]
    requests = cycle([emit(body, key) for body in bodies])
    await target.begin()
    await target.flood(lambda: next(requests), connections=2, pause=0.02)


@attack("suggestions", "names of kinds and plugins that resemble every known one")
async def suggestions(target: Target) -> None:
    key = await target.tenant()
    requests = cycle(
        [
            render("POST", "/webhook/set/attacker", unknown_kinds(170), key=key),
            render("POST", "/webhook/set/attacker", long_plugin_name(MEGABYTE - 4096), key=key),
            render("POST", "/delivery/replay/attacker", unknown_kinds(1000), key=key),
            emit(batch([event(b"{}", "ESAU_MESSAGES")] * 10_000), key),
        ]
    )
    await target.begin()
    await target.flood(lambda: next(requests), connections=2, pause=0.02)
