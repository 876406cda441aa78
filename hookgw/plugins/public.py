"""The public names of ``hookgw.plugins``: ``from hookgw.plugins import …`` loads them at the first use."""

from __future__ import annotations

from hookgw.plugins import boundary, hook_implementation, results
from hookgw.plugins.boundary import Boundary as Boundary
from hookgw.plugins.boundary import WrongResult as WrongResult
from hookgw.plugins.boundary import called_function as called_function
from hookgw.plugins.connector_options import MAX_OPTIONS as MAX_OPTIONS
from hookgw.plugins.connector_options import ConnectorOptions as ConnectorOptions
from hookgw.plugins.contained_connector import ContainedConnector as ContainedConnector
from hookgw.plugins.discovery import first_party_folder as first_party_folder
from hookgw.plugins.gateway_protocol import PluginGateway as PluginGateway
from hookgw.plugins.hook_implementation import HOOKS as HOOKS
from hookgw.plugins.hook_implementation import PLAIN_HOOKS as PLAIN_HOOKS
from hookgw.plugins.hook_implementation import HookImplementation as HookImplementation
from hookgw.plugins.hook_implementation import check_plugin as check_plugin
from hookgw.plugins.hook_implementation import new_manager as new_manager
from hookgw.plugins.hooks import Hooks as Hooks
from hookgw.plugins.hookspecs import hookimpl as hookimpl
from hookgw.plugins.loading import LoadedPlugins as LoadedPlugins
from hookgw.plugins.loading import PluginInfo as PluginInfo
from hookgw.plugins.loading import load_plugins as load_plugins
from hookgw.plugins.provided import CheckedConnector as CheckedConnector
from hookgw.plugins.provided import check_connector as check_connector
from hookgw.plugins.provided import check_kind as check_kind
from hookgw.plugins.supervise import restart_on_failure as restart_on_failure

describe_plugin_error = boundary.describe
nearest_hook = hook_implementation.nearest
MAX_HOOK_BODY = results.MAX_BODY
