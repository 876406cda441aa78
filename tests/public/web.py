"""The public names of ``hookgw.web``."""

from __future__ import annotations

from hookgw.web import app
from hookgw.web.auth import *
from hookgw.web.body import *
from hookgw.web.call_places import *
from hookgw.web.content_encoding import *
from hookgw.web.cors import *
from hookgw.web.first_headers import *
from hookgw.web.gzipped import *
from hookgw.web.languages import *
from hookgw.web.lists import *
from hookgw.web.needs import *
from hookgw.web.openapi.components import *
from hookgw.web.openapi.describe import *
from hookgw.web.openapi.document import *
from hookgw.web.openapi.page import *
from hookgw.web.openapi.routes import *
from hookgw.web.pages import *
from hookgw.web.query import MAX_LIMIT as MAX_LIMIT
from hookgw.web.request_body import *
from hookgw.web.route_auth import *
from hookgw.web.route_errors import *
from hookgw.web.routing import *
from hookgw.web.server.asgi_client import *
from hookgw.web.server.body_memory import *
from hookgw.web.server.certificates import *
from hookgw.web.server.client import *
from hookgw.web.server.client_timeouts import *
from hookgw.web.server.connection import *
from hookgw.web.server.connection_limits import *
from hookgw.web.server.errors import *
from hookgw.web.server.exchange import *
from hookgw.web.server.known_heads import *
from hookgw.web.server.listeners import *
from hookgw.web.server.request_head import *
from hookgw.web.server.request_reader import *
from hookgw.web.server.response_memory import *
from hookgw.web.server.serve import *
from hookgw.web.server.streams import *

AppApplication = app.Application
