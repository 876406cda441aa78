"""Instances: their fields, and how requests create and change them. No I/O."""
