"""The public names of ``hookgw.messages``."""

from __future__ import annotations

from hookgw.messages.bubbles import *
from hookgw.messages.changes import *
from hookgw.messages.chats import *
from hookgw.messages.content import *
from hookgw.messages.media import *
from hookgw.messages.requests import ChatQuery as ChatQuery
from hookgw.messages.requests import parse_audio_message as parse_audio_message
from hookgw.messages.requests import parse_chat_query as parse_chat_query
from hookgw.messages.requests import parse_contact_message as parse_contact_message
from hookgw.messages.requests import parse_deletion as parse_deletion
from hookgw.messages.requests import parse_edit as parse_edit
from hookgw.messages.requests import parse_location_message as parse_location_message
from hookgw.messages.requests import parse_media_message as parse_media_message
from hookgw.messages.requests import parse_numbers as parse_numbers
from hookgw.messages.requests import parse_presence as parse_presence
from hookgw.messages.requests import parse_reaction_message as parse_reaction_message
from hookgw.messages.requests import parse_read_messages as parse_read_messages
from hookgw.messages.requests import parse_template_message as parse_template_message
from hookgw.messages.requests import parse_text_message as parse_text_message
from hookgw.messages.routes.media import *
from hookgw.messages.service import MessageService as MessageService
