"""A simulated Tautulli in a process of its own, as a real one is: what it does costs nobody else any time.

`python -P bench/tautulli_server.py 1000000 1000`: rows, and rows on a day. It prints its address and its key, then for
each line of its standard input the seconds for which it was busy so far, and ends with that.
"""

from __future__ import annotations

import sys
import time

from tidegate_apps.tautulli.simulator import TautulliSimulator


def main() -> None:
    rows, per_day = map(int, sys.argv[1:])
    with TautulliSimulator(rows=rows, per_day=per_day, most_kept=100) as sim:
        print(sim.url, sim.key, flush=True)
        for _ in sys.stdin:
            print(time.process_time(), flush=True)


if __name__ == "__main__":
    main()
