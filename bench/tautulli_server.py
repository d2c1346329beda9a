"""A simulated Tautulli in a process of its own, as a real one is: what it does costs nobody else any time.

`python -P bench/tautulli_server.py 1000000 1000`: rows, and rows on a day. It prints its address and its key, then for
each line of its standard input the seconds for which it was busy so far, and ends with that. A number on such a line is
the least time, in seconds, that it takes for an answer from then on.
"""

from __future__ import annotations

import sys
import time

from tidegate.testing import RecordedRequest
from tidegate_demo.simulators.tautulli import TautulliSimulator


class Paced(TautulliSimulator):
    """One that answers no sooner than *least* seconds after it was asked."""

    least = 0.0

    def _asked(self, request: RecordedRequest) -> object:
        began = time.perf_counter()
        found = super()._asked(request)
        time.sleep(max(0.0, began + self.least - time.perf_counter()))
        return found


def main() -> None:
    rows, per_day = map(int, sys.argv[1:])
    with Paced(rows=rows, per_day=per_day, max_kept=100) as sim:
        print(sim.url, sim.key, flush=True)
        for line in sys.stdin:
            sim.least = float(line) if line.strip() else sim.least
            print(time.process_time(), flush=True)


if __name__ == "__main__":
    main()
