"""The public names of this package, loaded at the first use of one."""

from __future__ import annotations

from hookgw.auth import failed_attempts, fleet_secret, media_links
from hookgw.auth.authenticator import *
from hookgw.auth.client_address import *
from hookgw.auth.failed_attempts import *
from hookgw.auth.fleet_secret import *
from hookgw.auth.keyring import *
from hookgw.auth.media_links import *
from hookgw.auth.proxy_people import *
from hookgw.auth.rate_limit import *
from hookgw.auth.request_quota import *

FLEET_SECRET_VALID_FOR = fleet_secret.VALID_FOR
LONGEST_MEDIA_NAME = media_links.LONGEST_NAME
LONGEST_MEDIA_REFERENCE = media_links.LONGEST_REFERENCE
MAX_FAILING_SOURCES = failed_attempts.MAX_SOURCES
MEDIA_KEY_BYTES = media_links.KEY_BYTES
