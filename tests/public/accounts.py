"""The public names of ``hookgw.accounts``."""

from __future__ import annotations

from hookgw.accounts.document import *
from hookgw.accounts.export import *
from hookgw.accounts.key_files import *
from hookgw.accounts.key_plan import *
from hookgw.accounts.plan import *
from hookgw.accounts.schema import *
from hookgw.accounts.service import *
from hookgw.accounts.yaml_file import AccountsFile as AccountsFile
from hookgw.accounts.yaml_file import FileWrong as FileWrong
