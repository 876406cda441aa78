"""The public names of ``hookgw.auth``: ``from hookgw.auth import …`` loads them at the first use."""

from __future__ import annotations

from hookgw.auth import failed_attempts, fleet_secret, media_links
from hookgw.auth.authenticator import Authenticator as Authenticator
from hookgw.auth.client_address import TrustedProxies as TrustedProxies
from hookgw.auth.client_address import rate_limit_key as rate_limit_key
from hookgw.auth.failed_attempts import FailedKeyLimiter as FailedKeyLimiter
from hookgw.auth.fleet_secret import FleetSecret as FleetSecret
from hookgw.auth.fleet_secret import Origin as Origin
from hookgw.auth.keyring import CONFIGURED_KEY as CONFIGURED_KEY
from hookgw.auth.keyring import MAX_SOURCES_PER_KEY as MAX_SOURCES_PER_KEY
from hookgw.auth.keyring import KeyHolder as KeyHolder
from hookgw.auth.keyring import Keyring as Keyring
from hookgw.auth.keyring import new_key as new_key
from hookgw.auth.media_links import MediaLinks as MediaLinks
from hookgw.auth.media_links import is_mimetype as is_mimetype
from hookgw.auth.rate_limit import Pace as Pace
from hookgw.auth.rate_limit import RateLimits as RateLimits
from hookgw.auth.rate_limit import TokenBucket as TokenBucket
from hookgw.auth.request_quota import RequestQuota as RequestQuota

MAX_FAILING_SOURCES = failed_attempts.MAX_SOURCES
FLEET_SECRET_VALID_FOR = fleet_secret.VALID_FOR
MEDIA_KEY_BYTES = media_links.KEY_BYTES
LONGEST_MEDIA_NAME = media_links.LONGEST_NAME
LONGEST_MEDIA_REFERENCE = media_links.LONGEST_REFERENCE
