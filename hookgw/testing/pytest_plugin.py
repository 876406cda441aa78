"""The pytest plugin that offers hookgw's own fixtures to plugin authors."""
