"""Watches the memory of a worker with all that it spawned. A limit on address space would be too blunt: torch maps far
more than it uses."""

import asyncio
import os

import psutil


def group_rss(group: int) -> int:
    """Resident bytes of all processes of a process group. Pages shared between them count more than once."""
    total = 0
    for pid in psutil.pids():
        try:
            if os.getpgid(pid) == group:
                total += psutil.Process(pid).memory_info().rss
        except (ProcessLookupError, psutil.NoSuchProcess):
            continue  # It ended meanwhile.
    return total


async def until_over(group: int, limit: int, interval: float) -> int:
    """Wait until the group holds more than ``limit`` bytes, looking every ``interval`` seconds; returns how many."""
    while True:
        # Reading /proc takes milliseconds on a machine with many processes.
        resident = await asyncio.to_thread(group_rss, group)
        if resident > limit:
            return resident
        await asyncio.sleep(interval)
