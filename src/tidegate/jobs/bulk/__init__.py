"""The same action on many jobs."""
