"""Compiles graphs as a worker does, in a process that does nothing before.

python alone.py FOLDER

Each file of the folder is a payload, named by a number and its key. Prints the messages of what failed, by number; "" else.
"""

import json
import sys
from pathlib import Path

from inductord.compiler import task


def main() -> None:
    files = sorted(Path(sys.argv[1]).iterdir(), key=lambda file: int(file.name.split("-")[0]))
    replies = [task.compile_graph(file.name.split("-")[1], file.read_bytes(), 1) for file in files]
    for reply in replies:
        print(reply.failure.traceback, file=sys.stderr)
    print(json.dumps([reply.failure.message for reply in replies]))


if __name__ == "__main__":
    main()
