"""The receiver of `hookgw listen`."""
