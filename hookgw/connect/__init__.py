"""The receiver without a public address: `hookgw connect`."""
