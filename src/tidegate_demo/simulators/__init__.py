"""Simulated services of the applications, found by the entry points `tidegate.simulators`."""
