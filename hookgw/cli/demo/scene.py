"""When which receiver is in trouble."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import trio

from hookgw.cli.demo.receivers import DemoReceiver, Trouble


@dataclass(frozen=True)
class Scene:
    """One trouble: after ``wait`` seconds of peace, ``length`` seconds of it."""

    wait: float
    receiver: str
    trouble: Trouble
    length: float


ONCE = (Scene(1.0, "n8n", Trouble.REFUSES, 1.5), Scene(0.5, "bot", Trouble.FAILS, 1.5))
FOREVER = (Scene(4.0, "n8n", Trouble.REFUSES, 5.0), Scene(4.0, "bot", Trouble.FAILS, 5.0))


async def play(
    scenes: Iterable[Scene], receivers: Mapping[str, DemoReceiver], tell: Callable[[str], None]
) -> None:
    """Play the scenes in turn.

    Args:
        scenes: which; they may go on for ever.
        receivers: by name.
        tell: takes a sentence about what happens.
    """
    for scene in scenes:
        await trio.sleep(scene.wait)
        receiver = receivers[scene.receiver]
        await receiver.begin(scene.trouble)
        tell(f"{receiver.name} {scene.trouble}")
        await trio.sleep(scene.length)
        await receiver.recover()
        tell(f"{receiver.name} is up again")
