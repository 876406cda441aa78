"""All connectors to WhatsApp, and the simulator, send to the same person or to nobody.

Those to all networks name the field that has a wrong number.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from hookgw import (
    Contact,
    ContactMessage,
    HookgwError,
    Invalid,
    MessageKey,
    ReactionMessage,
    TextMessage,
)
from plugins.evolution.outgoing import recipient_of as evolution
from plugins.simulator.outgoing import chat_of as simulator
from plugins.waha.ids import chat_id_of as waha
from plugins.whatsapp_cloud.outgoing import recipient_of as whatsapp_cloud
from tests.first_party.lines import LINES

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


@pytest.mark.parametrize("name", LINES)
async def test_the_field_with_the_wrong_number_is_named(name: str) -> None:
    """It was `number`, whatever had the number: with the right one in it, nobody saw what was wrong."""
    wrong = MessageKey(remote_jid="?", id="70001", from_me=True)
    contact = Contact(full_name="Ben", phone_number="?")
    found = {}
    async with LINES[name]() as line:
        connector, session, number = line.connector, line.session, line.chat
        calls: dict[str, Callable[[], Any]] = {
            "edit": lambda: connector.edit(session, wrong, "new", number=number),
            "delete": lambda: connector.delete(session, wrong),
            "mark_read": lambda: connector.mark_read(session, [wrong]),
        }
        messages = {
            "mentioned": TextMessage(number=number, text="hi", mentions=("?",)),
            "phoneNumber": ContactMessage(number=number, contacts=(contact,)),
            "reaction": ReactionMessage(number="?", key=wrong, reaction="x"),
            "quoted": TextMessage(
                number=number, text="hi", reply_to=MessageKey(remote_jid="", id="? ?", from_me=False)
            ),
        }
        for call, message in messages.items():
            calls[call] = partial(connector.send, session, message, key="k")
        for call, make in calls.items():
            try:
                await make()
            except Invalid as error:
                found[call] = str(error)
            except (HookgwError, AttributeError):  # the network's answer, or no such call
                pass
    assert found
    fields = {
        "mentioned": ("mentioned: ",),
        "quoted": ("quoted.key.id: ",),
        "phoneNumber": ("contact: ", "contact.phoneNumber: "),
    }
    assert [
        one for one in found.items() if not one[1].startswith(fields.get(one[0], ("key.remoteJid: ",)))
    ] == []
