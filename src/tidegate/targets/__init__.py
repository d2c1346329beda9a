"""The health of targets in the store: all workers share it, and operators see and change it."""
