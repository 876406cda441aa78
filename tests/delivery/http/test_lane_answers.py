"""What receivers answer counts within the memory for answers; without room, the status decides alone."""

from functools import partial

import trio
from trio.testing import wait_all_tasks_blocked

from tests.delivery.http.raw_receiver import Peer, Server, always_ok, serving
from tests.public.delivery import (
    AddressGuard,
    AnswerMemory,
    ConnectionPools,
    Dialer,
    PooledTransport,
    PoolKey,
    Response,
    render_head,
)

SIZE = 2**20


def pools_with(memory: AnswerMemory, nursery: trio.Nursery) -> ConnectionPools:
    dialer = Dialer(AddressGuard(["127.0.0.1"]), connect_timeout=5)
    pools = ConnectionPools(partial(PooledTransport, dialer, max_answer=SIZE), answers=memory)
    nursery.start_soon(pools.run)
    return pools


async def attempt(pools: ConnectionPools, server: Server, holder: str, *, seconds: float = 10) -> Response:
    target = server.target()
    key: PoolKey = (*target.origin, None)
    transport = pools.borrow_nowait(key, holder)
    assert transport is not None
    try:
        head = render_head(target, {}, 0)
        return await transport.exchange(target, head, b"", deadline=trio.current_time() + seconds)
    finally:
        pools.give_back(transport)


async def test_answers_that_never_end_have_a_limit_and_their_status_counts(nursery: trio.Nursery) -> None:
    async def endless(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % SIZE + bytes(SIZE - 1))
        await peer.closed_by_the_other_side()

    async def large(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n" + bytes(100_000))

    memory = AnswerMemory(2**20)
    pools = pools_with(memory, nursery)
    responses: list[Response] = []

    async def one(server: Server) -> None:
        responses.append(await attempt(pools, server, "attacker"))

    async with serving(endless) as bad, serving(large) as good:
        async with trio.open_nursery() as attempts:
            attempts.start_soon(one, bad)
            while not responses:  # half of the memory is less than this answer
                await wait_all_tasks_blocked(0.001)
                assert memory.share.used <= memory.most_of_holder + 2**15
        whole = await attempt(pools, good, "victim")
    assert (responses[0].status, responses[0].complete) == (200, False)
    assert len(responses[0].body) > 2**18
    assert (whole.status, len(whole.body), whole.complete) == (200, 100_000, True)
    assert memory.share.used == 0


async def test_an_answer_of_one_piece_is_not_counted_and_a_cancelled_one_is_given_back(
    nursery: trio.Nursery,
) -> None:
    async def endless(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n" + bytes(99_999))
        await peer.closed_by_the_other_side()

    memory = AnswerMemory(2**20)
    memory.share.take("another", 2**20)
    pools = pools_with(memory, nursery)
    async with serving(always_ok) as server:
        assert (await attempt(pools, server, "a")).complete
    memory.share.give("another", 2**20)
    async with serving(endless) as server, trio.open_nursery() as attempts:
        attempts.start_soon(attempt, pools, server, "a")
        while memory.share.used < 99_999:
            await wait_all_tasks_blocked(0.001)
        attempts.cancel_scope.cancel()
    assert memory.share.used == 0
