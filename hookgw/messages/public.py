"""The public names of this package, loaded at the first use of one."""

from __future__ import annotations

from hookgw.messages.chats import *
from hookgw.messages.chats import Contact as Contact
from hookgw.messages.media import *
from hookgw.messages.requests import *
from hookgw.messages.routes.media import *
from hookgw.messages.service import MessageService as MessageService
