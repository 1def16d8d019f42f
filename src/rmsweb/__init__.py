"""rmsweb: train compact web agents that see screenshots and act in a real browser (RMSWeb, arXiv 2608.00335)."""

__version__ = "0.1.0"
