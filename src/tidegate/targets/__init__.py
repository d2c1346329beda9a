"""Health of targets as rows, shared by all workers and shown to operators."""
