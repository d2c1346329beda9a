"""Real worker processes under fire: kills, pauses, cut connections, stepping clocks, full disks.

    python -m tests.chaos --database both --seconds 300 --seed 17

A checker that shares no code with what it judges reads raw SQL and raw files afterwards.
"""
