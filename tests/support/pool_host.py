"""Stands for a daemon that is killed: holds a pool and gives it one script, until it is ended from outside."""

import argparse
import asyncio
from pathlib import Path

from support.pools import SCRIPTED

from inductord.v1.compiler_pb2 import Toolchain
from inductord.worker.local_pool import LocalPool, LocalPoolConfig
from inductord.worker.pool import Job, Pool
from inductord.worker.ray_pool import RayPool, RayPoolConfig


def make_pool(ray: bool, scratch: Path) -> Pool:
    """A pool with scripted workers."""
    if not ray:
        return LocalPool(LocalPoolConfig(scratch=scratch, max_artifact_bytes=2**20, max_workers=2, command=SCRIPTED))
    return RayPool(RayPoolConfig(scratch=scratch, max_artifact_bytes=2**20, address="local", command=SCRIPTED))


async def main(ray: bool, scratch: Path, graph: bytes) -> None:
    """Compile ``graph`` and wait for ever."""
    pool = make_pool(ray, scratch)
    await pool.start()
    await pool.compile(Job(key="0" * 64, graph=graph, toolchain=Toolchain()), lambda: None)
    await asyncio.Event().wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--ray", action="store_true")
    parser.add_argument("scratch", type=Path)
    parser.add_argument("graph")
    options = parser.parse_args()
    asyncio.run(main(options.ray, options.scratch, options.graph.encode()))
