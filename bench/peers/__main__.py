"""Tidegate beside other libraries: `python -m bench.peers [breakers] [queues] [--rounds N]`, by `make peers`."""

from __future__ import annotations

import argparse
import sys

from bench.peers import breakers, queues

PARTS = ("breakers", "queues")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"some of: {', '.join(PARTS)}; without one, all")
    parser.add_argument("--rounds", type=int, default=2, help="in which queues take turns; the medians count")
    said = parser.parse_args()
    unknown = [part for part in said.parts if part not in PARTS]
    if unknown:
        parser.error(f"{unknown[0]!r} is not a part; give some of: {', '.join(PARTS)}")
    wanted = said.parts or PARTS
    if "breakers" in wanted:
        breakers.run()
    return 0 if "queues" not in wanted or queues.run(said.rounds) else 1


if __name__ == "__main__":
    sys.exit(main())
