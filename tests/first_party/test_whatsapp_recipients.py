"""All connectors to WhatsApp, and the simulator, send to the same person or to nobody."""

from collections.abc import Callable
from typing import Any

import pytest

from hookgw import Invalid
from plugins.evolution.outgoing import recipient_of as evolution
from plugins.simulator.outgoing import chat_of as simulator
from plugins.waha.ids import chat_id_of as waha
from plugins.whatsapp_cloud.outgoing import recipient_of as whatsapp_cloud

CONNECTORS = (evolution, simulator, waha, whatsapp_cloud)
_REFUSED = (
    *("5511988887777.0", "55.11.98888.7777", "005511988887777", "011988887777", "12345", "1" * 16, "ana", ""),
    *("5511988887777.0@s.whatsapp.net", "005511988887777@s.whatsapp.net", "011988887777@c.us"),
    *("@g.us", "@lid"),
)


@pytest.mark.parametrize("connector", CONNECTORS, ids=lambda found: found.__module__)
@pytest.mark.parametrize("number", _REFUSED)
def test_what_may_be_somebody_else_is_refused(connector: Callable[[str], Any], number: str) -> None:
    with pytest.raises(Invalid, match="number"):
        connector(number)


@pytest.mark.parametrize("connector", CONNECTORS, ids=lambda found: found.__module__)
@pytest.mark.parametrize(
    # The last one is a mention, as the text of the message has it.
    "number",
    ["+55 (11) 98888-7777", "5511988887777", "5511988887777@c.us", "@5511988887777"],
)
def test_a_person_is_the_same_in_all_forms(connector: Callable[[str], Any], number: str) -> None:
    assert connector(number) in (connector("5511988887777"), connector("5511988887777@s.whatsapp.net"))


@pytest.mark.parametrize("connector", CONNECTORS, ids=lambda found: found.__module__)
@pytest.mark.parametrize("group", ["120363040000000000", "5511988887777-1400000000"])
def test_a_group_may_lack_its_suffix(connector: Callable[[str], Any], group: str) -> None:
    assert connector(group) == connector(f"{group}@g.us")
    assert f"{group}@g.us" in str(connector(group))
