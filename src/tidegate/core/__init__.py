"""Values and policy: pure, no state, no clock, no I/O."""
