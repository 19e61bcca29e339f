"""Healer watches clusters, repairs what is wrong, proves the cure and tells the people on call."""

__version__ = "0.1.0"
