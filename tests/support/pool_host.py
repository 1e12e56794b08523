"""Stands for a daemon that is killed: holds a local pool and gives it one script, until it is ended from outside."""

import asyncio
import sys
from pathlib import Path

from support.pools import SCRIPTED

from inductord.v1.compiler_pb2 import Toolchain
from inductord.worker.local_pool import LocalPool, LocalPoolConfig
from inductord.worker.pool import Job


async def main(scratch: Path, graph: bytes) -> None:
    """Compile ``graph`` and wait for ever."""
    pool = LocalPool(LocalPoolConfig(scratch=scratch, max_artifact_bytes=2**20, max_workers=2, command=SCRIPTED))
    await pool.start()
    await pool.compile(Job(key="0" * 64, graph=graph, toolchain=Toolchain()), lambda: None)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2].encode()))
