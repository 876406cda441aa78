"""The public names of ``hookgw.config``: ``from hookgw.config import …`` loads them at the first use."""

from __future__ import annotations

from hookgw.config import open_files, service_manager, typed, yaml_reader
from hookgw.config.file_permissions import everything_in as everything_in
from hookgw.config.file_permissions import exposed_secrets as exposed_secrets
from hookgw.config.file_permissions import first_trouble as first_trouble
from hookgw.config.file_permissions import is_own_group as is_own_group
from hookgw.config.file_permissions import replaceable_by_others as replaceable_by_others
from hookgw.config.file_permissions import trusted_users as trusted_users
from hookgw.config.file_permissions import writable_by_others as writable_by_others
from hookgw.config.folders import sync_folder as sync_folder
from hookgw.config.load import expand as expand
from hookgw.config.load import load_settings as load_settings
from hookgw.config.load import unknown_variables as unknown_variables
from hookgw.config.load import variable_of as variable_of
from hookgw.config.master_keys import MasterKeys as MasterKeys
from hookgw.config.master_keys import new_master_key as new_master_key
from hookgw.config.master_keys import parse_master_key as parse_master_key
from hookgw.config.master_keys import read_master_keys as read_master_keys
from hookgw.config.open_files import OpenFiles as OpenFiles
from hookgw.config.open_files import divide_open_files as divide_open_files
from hookgw.config.proxy_url import Proxy as Proxy
from hookgw.config.proxy_url import parse_proxy as parse_proxy
from hookgw.config.refused_ports import REFUSED_PORTS as REFUSED_PORTS
from hookgw.config.rules import broken_rules as broken_rules
from hookgw.config.service_manager import extended_start as extended_start
from hookgw.config.service_manager import notify as notify
from hookgw.config.settings import AuthSettings as AuthSettings
from hookgw.config.settings import DeliverySettings as DeliverySettings
from hookgw.config.settings import EventsSettings as EventsSettings
from hookgw.config.settings import InstancesSettings as InstancesSettings
from hookgw.config.settings import LimitsSettings as LimitsSettings
from hookgw.config.settings import LogSettings as LogSettings
from hookgw.config.settings import MediaSettings as MediaSettings
from hookgw.config.settings import OperationsSettings as OperationsSettings
from hookgw.config.settings import PluginsSettings as PluginsSettings
from hookgw.config.settings import Section as Section
from hookgw.config.settings import ServerSettings as ServerSettings
from hookgw.config.settings import Settings as Settings
from hookgw.config.settings import StorageSettings as StorageSettings
from hookgw.config.settings import TlsSettings as TlsSettings
from hookgw.config.typed import KeyInfo as KeyInfo
from hookgw.config.typed import known_keys as known_keys
from hookgw.config.typed import read_settings as read_settings
from hookgw.config.typed import wanted as wanted
from hookgw.config.yaml_reader import read_yaml as read_yaml

MOST_OPEN_FILES = open_files.MOST
SERVICE_EXTEND_BY = service_manager.EXTEND_BY
SERVICE_READY = service_manager.READY
SERVICE_STOPPING = service_manager.STOPPING
nearest_key = typed.nearest
join_yaml = yaml_reader.join
read_yaml_scalar = yaml_reader.read_scalar
