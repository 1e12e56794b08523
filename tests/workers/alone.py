"""Compiles graphs as a worker does, in a process that does nothing before.

python alone.py FOLDER THREADS

Each file of the folder is a payload, named by a number and its key. Prints the messages of what failed, by number; "" else.
Puts what was compiled beside it, in files named by the key.
"""

import json
import sys
from pathlib import Path

from inductord.compiler import task


def main() -> None:
    folder = Path(sys.argv[1])
    said = []
    for file in sorted(folder.iterdir(), key=lambda file: int(file.name.split("-")[0])):
        key = file.name.split("-")[1]
        reply = task.compile_graph(key, file.read_bytes(), int(sys.argv[2]))
        print(reply.failure.traceback, file=sys.stderr)
        said.append(reply.failure.message)
        (folder / key).write_bytes(reply.artifact)
    print(json.dumps(said))


if __name__ == "__main__":
    main()
