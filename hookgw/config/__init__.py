"""Typed settings, and the code that loads and checks them."""
