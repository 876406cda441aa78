"""The attacker: one attack, in a process of its own.

Its arguments are the gateway's port, the global key, the name of the attack, and the seconds that it may
take. Standard output has ``ready`` once the attack may begin, and at the end the counts of responses as JSON.
"""

import os
import resource
import sys

import msgspec
import trio

from tests.isolation.attacks import ATTACKS
from tests.isolation.target import attacking


async def main(port: int, global_key: str, name: str, seconds: float, full: bool) -> None:
    """Attack the gateway at that port."""
    async with attacking(port, global_key, seconds=seconds, full=full) as target:
        with target.limit:
            await ATTACKS[name].run(target)
        print(msgspec.json.encode(target.counts).decode(), flush=True)


if __name__ == "__main__":
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    # An attacker has machines of its own; here it must not take the processor from the gateway.
    os.nice(10)
    trio.run(main, int(sys.argv[1]), sys.argv[2], sys.argv[3], float(sys.argv[4]), "full" in sys.argv)
