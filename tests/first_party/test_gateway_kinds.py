import jsonschema_rs
import pytest

from tests.public.plugins import Hooks
from tests.public.records import BUILT_IN_KINDS, Catalog

DOTTED = {
    "APPLICATION_STARTUP": "application.startup",
    "MESSAGES_SET": "messages.set",
    "MESSAGES_EDITED": "messages.edited",
    "MESSAGES_DELETE": "messages.delete",
    "SEND_MESSAGE_UPDATE": "send.message.update",
    "CONTACTS_SET": "contacts.set",
    "CONTACTS_UPSERT": "contacts.upsert",
    "CONTACTS_UPDATE": "contacts.update",
    "PRESENCE_UPDATE": "presence.update",
    "CHATS_SET": "chats.set",
    "CHATS_UPSERT": "chats.upsert",
    "CHATS_UPDATE": "chats.update",
    "CHATS_DELETE": "chats.delete",
    "GROUPS_UPSERT": "groups.upsert",
    "GROUPS_UPDATE": "groups.update",
    "GROUP_PARTICIPANTS_UPDATE": "group-participants.update",
    "LABELS_EDIT": "labels.edit",
    "LABELS_ASSOCIATION": "labels.association",
    "CALL": "call",
    "TYPEBOT_START": "typebot.start",
    "TYPEBOT_CHANGE_STATUS": "typebot.change-status",
    "NEW_JWT_TOKEN": "new.jwt",
    "CHAMA_AI_ACTION": "chama-ai.action",
    "INSTANCE_CREATE": "instance.create",
    "INSTANCE_DELETE": "instance.delete",
    "REMOVE_INSTANCE": "remove.instance",
    "LOGOUT_INSTANCE": "logout.instance",
    "STATUS_INSTANCE": "status.instance",
    "MESSAGING_HISTORY_SET": "messaging-history.set",
}


def test_the_kinds_and_their_dotted_names(hooks: Hooks) -> None:
    assert {kind.name: kind.dotted_name for kind in hooks.kinds()} == DOTTED
    assert {kind.plugin for kind in hooks.kinds()} == {"gateway_kinds"}


@pytest.mark.parametrize(("name", "dotted"), DOTTED.items())
def test_both_spellings_are_known(catalog: Catalog, name: str, dotted: str) -> None:
    assert catalog.resolve(dotted, "event").name == catalog.resolve(name, "event").name == name


@pytest.mark.parametrize("spelling", ["GROUP_UPDATE", "group.update", "GROUPS_UPDATE", "groups.update"])
def test_group_update_is_an_alias(catalog: Catalog, spelling: str) -> None:
    assert catalog.resolve(spelling, "event").name == "GROUPS_UPDATE"


def test_each_kind_has_a_meaning_and_a_valid_example(hooks: Hooks) -> None:
    for kind in hooks.kinds():
        assert kind.meaning.endswith(".")
        jsonschema_rs.validator_for(kind.schema).validate(kind.example)


def test_no_two_kinds_have_the_same_meaning(hooks: Hooks) -> None:
    meanings = [kind.meaning for kind in (*BUILT_IN_KINDS, *hooks.kinds())]
    assert len(set(meanings)) == len(meanings) == 35
