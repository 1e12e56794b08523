"""Numbers and names as people read them. Pure."""

from collections.abc import Iterable

from inductord.daemon.tenancy import short

_BYTE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_STEP = 1024
_MINUTE = 60
_HOUR = 3600
_DAY = 86400
_ONE_DIGIT_BELOW = 100


def size(count: int) -> str:
    """Bytes with a binary unit: ``0 B``, ``2.1 MiB``."""
    value = float(count)
    for unit in _BYTE_UNITS[:-1]:
        if value < _STEP:
            return f"{count} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= _STEP
    return f"{value:.1f} {_BYTE_UNITS[-1]}"


def duration(seconds: float) -> str:
    """Seconds with the unit that fits: ``3 ms``, ``4.2 s``, ``3 min 20 s``, ``2 h 5 min``, ``3 d 4 h``."""
    if 0 < seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < _ONE_DIGIT_BELOW:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < _HOUR:
        return f"{whole // _MINUTE} min {whole % _MINUTE} s"
    if whole < _DAY:
        return f"{whole // _HOUR} h {whole % _HOUR // _MINUTE} min"
    return f"{whole // _DAY} d {whole % _DAY // _HOUR} h"


def ago(seconds: float) -> str:
    """A time in the past: ``just now``, ``3 min 20 s ago``."""
    return "just now" if seconds < 1 else f"{duration(seconds)} ago"


def count(number: int, noun: str, plural: str | None = None) -> str:
    """``1 graph``, ``2 graphs``, ``3 entries``."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}".replace(",", " ")


def short_key(key: str) -> str:
    """The beginning of a key, with its tenant, long enough for every command that takes a prefix."""
    return short(key)


def plain(text: str) -> str:
    """``text`` without what a terminal would take for a command: control characters become a replacement character."""
    return "".join(char if char.isprintable() else "\ufffd" for char in text)


def ranges(numbers: Iterable[int]) -> str:
    """Numbers in order with neighbours drawn together: ``0–3, 7``."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}–{run[-1]}" for run in runs)
