"""What a CUDA binary says of its kernel without being loaded: how many registers a thread uses. No torch, no driver.

A cubin is an ELF file (64 bit, little endian). The number of registers stands in the top byte of ``sh_info`` of the kernel's
code section, or, in newer files, in the attribute EIATTR_REGCOUNT of ``.nv.info``.
"""

import struct
from collections.abc import Iterator

_SECTION = struct.Struct("<IIQQQQIIQQ")
_CODE = ".text."
_INFO = ".nv.info"
_EIFMT_SVAL = 0x04
_EIATTR_REGCOUNT = 0x2F


class NotACubin(ValueError):
    """These bytes are no CUDA binary that we can read."""


def registers(content: bytes) -> int:
    """Registers a thread of the kernel in a cubin uses; the largest number when there are several.

    Raises:
        NotACubin: it is none, or says nothing of registers.
    """
    try:
        sections = list(_sections(content))
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise NotACubin(f"not an ELF file with sections: {error}") from error
    found = [info >> 24 for name, info, _ in sections if name.startswith(_CODE)]
    for name, _, body in sections:
        if name == _INFO:
            found += _register_attributes(body)
    if not (count := max(found, default=0)):
        raise NotACubin("no section says how many registers its kernel uses")
    return count


def _sections(content: bytes) -> Iterator[tuple[str, int, bytes]]:
    if content[:6] != b"\x7fELF\x02\x01":
        raise NotACubin("not a 64-bit little-endian ELF file")
    (offset,) = struct.unpack_from("<Q", content, 40)
    size, count, names = struct.unpack_from("<HHH", content, 58)
    headers = [_SECTION.unpack_from(content, offset + number * size) for number in range(count)]
    strings = headers[names][4]
    for name, kind, _, _, start, length, _, info, _, _ in headers:
        end = content.index(b"\0", strings + name)
        nobits = kind == 8
        yield content[strings + name : end].decode(), info, b"" if nobits else content[start : start + length]


def _register_attributes(body: bytes) -> Iterator[int]:
    position = 0
    while position + 4 <= len(body):
        form, attribute, size = struct.unpack_from("<BBH", body, position)
        position += 4
        if form != _EIFMT_SVAL:
            continue  # its value is in the header
        if attribute == _EIATTR_REGCOUNT and size >= 8:
            yield struct.unpack_from("<II", body, position)[1]
        position += size
