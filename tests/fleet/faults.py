"""What is done to nodes, the database, and the ways between them. Each fault is over when it returns."""

import random
import signal
from functools import partial

import trio

from tests.fleet.nodes import Fleet, Node
from tests.support.postgres import PostgresServer

CRASH = 3
"""SIGQUIT ends a PostgreSQL server at once, as a crash does."""


async def kill(node: Node, away: float) -> None:
    """``kill -9``, and a start after some seconds."""
    await node.kill()
    await trio.sleep(away)
    await node.start()


async def stop(node: Node) -> None:
    """SIGTERM, as an upgrade does, and a start."""
    assert await node.stop() == 0
    await node.start()


async def freeze(node: Node, seconds: float) -> None:
    """Stop a process where it is, and let it go on later. Clients stay: what it answers then must be true."""
    node.signal(signal.SIGSTOP)
    try:
        await trio.sleep(seconds)
    finally:
        node.signal(signal.SIGCONT)
    await trio.sleep(1)


async def restart(postgres: PostgresServer, away: float = 0.0) -> None:
    """Crash the database's server, and start it after some seconds."""
    await trio.to_thread.run_sync(partial(postgres.stop, CRASH))
    await trio.sleep(away)
    await trio.to_thread.run_sync(postgres.start)


async def cut_off(node: Node, seconds: float, *, is_refused: bool = False) -> None:
    """Keep a node from the database. A load balancer notices after a while.

    Args:
        node: the node.
        seconds: how long.
        is_refused: whether its connections are ended and new ones refused; otherwise nothing passes.
    """
    if is_refused:
        node.database.refuse()
    else:
        node.database.cut()
    try:
        await trio.sleep(min(5.0, seconds))
        node.is_up = False
        await trio.sleep(max(0.0, seconds - 5.0))
    finally:
        node.database.mend()
    await trio.sleep(1)
    node.is_up = True


async def hide(node: Node, seconds: float) -> None:
    """Let nothing pass from the other nodes to this one."""
    node.peers.cut()
    try:
        await trio.sleep(seconds)
    finally:
        node.peers.mend()


KINDS = ("kill", "kill", "freeze", "stop", "restart", "cut off", "hide")


async def any_fault(fleet: Fleet, postgres: PostgresServer, chance: random.Random) -> tuple[str, Node]:
    kind, node = chance.choice(KINDS), chance.choice(fleet.nodes)
    match kind:
        case "kill":
            # At times it is back before the others have noticed.
            await kill(node, chance.choice([0.0, 4.0]))
        case "freeze":
            # The others take over after 3 s. What the node had begun must fail, however far it had come.
            await freeze(node, chance.uniform(2.0, 8.0))
        case "stop":
            await stop(node)
        case "restart":
            await restart(postgres, chance.choice([0.0, 0.0, 4.0]))
        case "cut off":
            await cut_off(node, chance.choice([1.0, 4.0, 8.0]))
        case _:
            await hide(node, chance.choice([1.0, 4.0]))
    return kind, node
