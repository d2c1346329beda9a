"""State machines: pure but for the breaker, which is the hot path and holds its clock."""
