"""The public names of ``hookgw.config``."""

from __future__ import annotations

from hookgw.config import yaml_reader
from hookgw.config.brand import *
from hookgw.config.file_permissions import *
from hookgw.config.file_presence import *
from hookgw.config.folders import *
from hookgw.config.load import *
from hookgw.config.master_key_file import *
from hookgw.config.master_keys import *
from hookgw.config.open_files import *
from hookgw.config.people import *
from hookgw.config.proxy_url import *
from hookgw.config.refused_ports import *
from hookgw.config.rules import *
from hookgw.config.service_manager import *
from hookgw.config.settings import *
from hookgw.config.typed import *
from hookgw.config.values import *
from hookgw.config.yaml_reader import *
from hookgw.config.yaml_writer import write_document as write_document

join_yaml = yaml_reader.join
read_yaml_scalar = yaml_reader.read_scalar
