"""What of the history goes between the look at it and its removal."""

from functools import partial

from hookgw.store import Oldest, Store
from hookgw.store.sqlite import remove_oldest
from tests.store.support import RULE, delivered, ids_of, seqs_of, settle, to
from tests.support.stores import commits_of


async def test_a_delivery_that_was_sent_again_meanwhile_stays(store: Store) -> None:
    await store.append(to("e1", "e2"))
    first, second = await seqs_of(store)
    await settle(store, delivered(first), delivered(second))
    found = [Oldest(at=0, seq=seq, instance=0, size=2) for seq in (first, second)]
    await store.resend("shop", second, RULE)
    count, _ = await commits_of(store).call(partial(remove_oldest, found=found, before=9e9))
    assert count == 1
    assert await ids_of(store) == ["e2"]
