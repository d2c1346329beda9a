"""Mutation testing: whether a test fails when the code is wrong."""
