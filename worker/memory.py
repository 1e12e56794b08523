"""Watches the memory of a worker with all that it spawned. A limit on address space would be too blunt: torch maps far
more than it uses."""

import asyncio
import os

import psutil


def of_group(group: int) -> int:
    """Resident bytes of all processes of a process group; of a page that n processes share, whichever they are, an nth."""
    total = 0
    for pid in psutil.pids():
        try:
            if os.getpgid(pid) == group:
                total += psutil.Process(pid).memory_full_info().pss
        except (ProcessLookupError, psutil.NoSuchProcess):
            continue  # It ended meanwhile.
    return total


async def until_over(group: int, limit: int, interval: float) -> int:
    """Wait until the group holds more than ``limit`` bytes, looking every ``interval`` seconds; returns how many."""
    while True:
        # Reading /proc takes milliseconds on a machine with many processes.
        resident = await asyncio.to_thread(of_group, group)
        if resident > limit:
            return resident
        await asyncio.sleep(interval)
