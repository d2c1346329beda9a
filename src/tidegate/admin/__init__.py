"""Operator views across all packages: overview, metrics, monitoring and checks."""
