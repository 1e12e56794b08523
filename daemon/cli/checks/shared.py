"""The store that nodes share: its keys, its driver, and whether it answers."""

import asyncio
import contextlib
import time
from collections.abc import Iterator

from inductord.daemon.cli import words
from inductord.daemon.cli.checks.finding import Finding, fail, ok, warn
from inductord.daemon.config import DaemonConfig
from inductord.daemon.shared.errors import SharedStoreUnusable

_SLOW_S = 1.0
# A driver may take that long to be imported and to sign in.
_LONGEST_S = 20.0
_MEND = "docs/shared-store.md says what each kind of store needs. Until it works, every node compiles for itself."


def shared_store(config: DaemonConfig) -> Iterator[Finding]:
    """Whether it can be read, when there is to be one. Asks for an object that nobody writes."""
    if not config.shared_store:
        return
    try:
        from inductord.daemon.shared.objects import Objects, check_url, redacted
        from inductord.daemon.shared.threads import Threads
    except ModuleNotFoundError as error:
        yield fail("shared store", f"the package {error.name} is not installed", "pip install 'inductord[shared]'")
        return
    try:
        check_url(config.shared_store)
        yield _keys(config)
    except SharedStoreUnusable as error:
        yield fail("shared store", str(error), _MEND)
        return
    url, objects = redacted(config.shared_store), Objects(config.shared_store)

    async def look() -> None:
        threads = Threads("inductord-doctor", 1)
        await threads.run(lambda: objects.read("doctor", 1), _LONGEST_S)

    began = time.monotonic()
    try:
        with contextlib.suppress(FileNotFoundError):  # that is the answer
            asyncio.run(look())
    except TimeoutError:
        yield fail("shared store", f"{url} did not answer within {_LONGEST_S:g} s", _MEND)
        return
    except Exception as error:  # noqa: BLE001 - drivers raise what they like, and it is the finding
        yield fail("shared store", f"{url}: {redacted(f'{type(error).__name__}: {error}')}", _MEND)
        return
    seconds = time.monotonic() - began
    found = f"{url} answers, the first time in {words.duration(seconds)}"
    if seconds > max(_SLOW_S, config.shared_store_timeout):
        yield warn("shared store", found, "Raise shared_store_timeout if later reads take that long too.")
    else:
        yield ok("shared store", found)


def _keys(config: DaemonConfig) -> Finding:
    from inductord.daemon.shared.keys import read

    if config.shared_store_keys is None:
        raise SharedStoreUnusable(
            "shared_store is set and shared_store_keys is not; `inductord store new-key` makes them."
        )
    keys = read(config.shared_store_keys)
    return ok("shared store", f"{words.count(len(keys.keys), 'key')}; {keys.signer.hex()} signs")
