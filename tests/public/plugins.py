"""The public names of ``hookgw.plugins``."""

from __future__ import annotations

from hookgw.plugins import boundary
from hookgw.plugins.boundary import *
from hookgw.plugins.connector_options import *
from hookgw.plugins.contained_connector import *
from hookgw.plugins.discovery import *
from hookgw.plugins.hook_implementation import *
from hookgw.plugins.hooks import *
from hookgw.plugins.loading import *
from hookgw.plugins.provided import *
from hookgw.plugins.results import *
from hookgw.plugins.supervise import *

describe_plugin_error = boundary.describe
