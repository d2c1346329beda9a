"""Tidegate keeps a program working while the services it calls do not."""
