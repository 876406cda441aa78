"""The public names of this package, loaded at the first use of one."""

from __future__ import annotations

from hookgw.command.client import *
from hookgw.command.configuration import *
from hookgw.command.failure import *
from hookgw.command.field_options import *
from hookgw.command.garbage import *
from hookgw.command.group import *
from hookgw.command.logging_setup import *
from hookgw.command.names import *
from hookgw.command.output import Column as Column
from hookgw.command.output import counted as counted
from hookgw.command.output import fit as fit
from hookgw.command.output import printable as printable
from hookgw.command.output import short_time as short_time
from hookgw.command.output import show_fields as show_fields
from hookgw.command.output import show_json as show_json
from hookgw.command.output import show_table as show_table
from hookgw.command.process import *
from hookgw.command.profiles import *
from hookgw.command.repeated import *
from hookgw.command.target import *
from hookgw.command.words import HEADINGS as HEADINGS
