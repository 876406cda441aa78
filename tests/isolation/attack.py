"""The known attacks. Each is one function; :mod:`tests.isolation.attacks` has them."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

from tests.isolation.target import Target

Run = Callable[[Target], Awaitable[None]]


class Attack(NamedTuple):
    """One way to hurt others.

    Attributes:
        name: for the command line and the table.
        what: what the attacker does, in a few words.
        run: prepares, calls :meth:`Target.begin`, and attacks until it is cancelled.
        settings: blocks of the configuration that differ from the defaults.
        victim: what the victim beside it does; see :data:`tests.isolation.victim.WORK`.
        before: Python that runs in the gateway's process before hookgw does.
        plugin: the source of a plugin that the gateway loads.
        blocks: the attack is a plugin that blocks the event loop, which nothing can contain. Latencies are
            not judged then; the gateway must report it.
    """

    name: str
    what: str
    run: Run
    settings: Mapping[str, Mapping[str, Any]]
    victim: str
    before: str
    plugin: str | None
    blocks: bool


# Both limits, because the gateway raises the soft limit to the hard one.
FEW_DESCRIPTORS = """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (512, 512))
"""
"""Python that leaves the gateway 512 open files."""

# The system's resolver asks the name servers of the machine, which an attack must not need.
NAME_SERVER = """
import socket, time
system = socket.getaddrinfo
def getaddrinfo(host, port, *arguments, **options):
    if host.endswith(".silent.test"):
        time.sleep(15)
        raise socket.gaierror(socket.EAI_AGAIN, "the name server does not answer")
    return system("127.0.0.1" if host.endswith(".fast.test") else host, port, *arguments, **options)
socket.getaddrinfo = getaddrinfo
"""
"""Python that stands for a name server: it knows ``*.fast.test``, and is silent about ``*.silent.test``."""

ATTACKS: dict[str, Attack] = {}


def attack(
    name: str,
    what: str,
    *,
    settings: Mapping[str, Mapping[str, Any]] = {},
    victim: str = "emits",
    before: str = "",
    plugin: str | None = None,
    blocks: bool = False,
) -> Callable[[Run], Run]:
    """Add a function to :data:`ATTACKS`; the arguments are those of :class:`Attack`."""

    def add(run: Run) -> Run:
        assert name not in ATTACKS, name
        ATTACKS[name] = Attack(name, what, run, settings, victim, before, plugin, blocks)
        return run

    return add
