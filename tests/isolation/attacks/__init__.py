"""All known attacks, in the order of the table."""

from tests.isolation.attack import ATTACKS as DECLARED
from tests.isolation.attacks import (
    answers,
    connections,
    networks,
    outbox,
    plugins,
    processor,
    reads,
    receivers,
    siblings,
    values,
    work,
)

_MODULES = (
    *(processor, values, outbox, receivers, reads, answers),
    *(work, connections, networks, siblings, plugins),
)

ATTACKS = {
    name: attack
    for module in _MODULES
    for name, attack in DECLARED.items()
    if attack.run.__module__ == module.__name__
}
"""By name."""
