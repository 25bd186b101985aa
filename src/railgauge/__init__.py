"""Railgauge: the acceptance gate of a cluster's network."""

__version__ = "0.1.0"
