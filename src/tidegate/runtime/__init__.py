"""Doing: clocks, calls, the bus and the sinks."""
