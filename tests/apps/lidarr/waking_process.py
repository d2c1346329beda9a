"""A process that wakes the submitter once, and says how many it has sent: its arguments are database and Lidarr."""

from __future__ import annotations

import asyncio
import sys

from tidegate import Queue
from tidegate.apps import install
from tidegate_apps.lidarr.app import app
from tidegate_apps.lidarr.settings import LidarrSettings
from tidegate_demo.simulators.lidarr import KEY


def main(url: str, lidarr: str, queue_max: str = "50") -> None:
    with Queue(url) as queue:
        said = {"base_url": lidarr, "api_key": KEY, "queue_max": queue_max, "refresh_wait": "1s"}
        there = install(app, queue, LidarrSettings.model_validate(said))
        woken = asyncio.run(there.jobs.waker.run_cycle())
        assert woken is not None
        sys.stdout.write(f"{woken.submitted}\n")
        there.closing.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
