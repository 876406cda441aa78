"""The public names of ``hookgw.auth``."""

from __future__ import annotations

from hookgw.auth.authenticator import *
from hookgw.auth.client_address import *
from hookgw.auth.failed_attempts import *
from hookgw.auth.fleet_secret import *
from hookgw.auth.keyring import *
from hookgw.auth.media_links import *
from hookgw.auth.proxy_people import *
from hookgw.auth.rate_limit import *
from hookgw.auth.request_quota import *
