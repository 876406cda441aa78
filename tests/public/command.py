"""The public names of ``hookgw.command``."""

from __future__ import annotations

from hookgw.command.client import *
from hookgw.command.completing import *
from hookgw.command.configuration import *
from hookgw.command.failure import *
from hookgw.command.field_options import *
from hookgw.command.garbage import *
from hookgw.command.group import *
from hookgw.command.logging_setup import *
from hookgw.command.names import *
from hookgw.command.output import *
from hookgw.command.plugin_commands import *
from hookgw.command.process import *
from hookgw.command.profiles import *
from hookgw.command.repeated import *
from hookgw.command.target import *
from hookgw.command.words import *
