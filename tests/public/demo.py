"""The public names of ``hookgw.demo``."""

from __future__ import annotations

from hookgw.demo.board import *
from hookgw.demo.invitation import *
from hookgw.demo.ledger import *
from hookgw.demo.observer import *
from hookgw.demo.painter import *
from hookgw.demo.receivers import *
from hookgw.demo.screens import *
from hookgw.demo.stage import *
