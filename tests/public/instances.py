"""The public names of ``hookgw.instances``."""

from __future__ import annotations

from hookgw.instances.commands.connect import qr_blocks as qr_blocks
from hookgw.instances.connectors.calls import *
from hookgw.instances.connectors.chat_lines import *
from hookgw.instances.connectors.inbound_media import *
from hookgw.instances.connectors.media_download import *
from hookgw.instances.connectors.outgoing_call import *
from hookgw.instances.connectors.recent_sends import *
from hookgw.instances.connectors.runner import *
from hookgw.instances.connectors.server_search import *
from hookgw.instances.connectors.session import *
from hookgw.instances.connectors.states import *
from hookgw.instances.evolution.plan import *
from hookgw.instances.evolution.source import *
from hookgw.instances.fields import *
from hookgw.instances.requests import *
from hookgw.instances.service import *
