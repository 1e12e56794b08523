"""A line on rank 0's terminal while it waits for a compile. Nothing when standard error is no terminal."""

import sys

from inductord.v1.compiler_pb2 import CompileState, Progress

_WORDS = {
    CompileState.COMPILE_STATE_UPLOADING: "another rank sends it",
    CompileState.COMPILE_STATE_QUEUED: "queued",
    CompileState.COMPILE_STATE_COMPILING: "compiling",
}
_CLEAR = "\r\x1b[K"
_WORTH_SHOWING_S = 0.5


class ProgressLine:
    """Shows how the wait for one graph goes; to be closed when it ends."""

    def __init__(self, graph: str, *, enabled: bool) -> None:
        self._graph = graph
        self._enabled = enabled
        self._shown = False

    def update(self, progress: Progress) -> None:
        """Show the state, once the wait is long enough to be noticed."""
        if not self._enabled or progress.elapsed_seconds < _WORTH_SHOWING_S:
            return
        words = _WORDS.get(progress.state, "waiting")
        if progress.ahead:
            words += f", {progress.ahead} ahead"
        sys.stderr.write(f"{_CLEAR}inductord: {self._graph}: {words}, {progress.elapsed_seconds:.0f} s")
        sys.stderr.flush()
        self._shown = True

    def close(self) -> None:
        """Take the line away."""
        if self._shown:
            sys.stderr.write(_CLEAR)
            sys.stderr.flush()
