"""Descriptions of accelerators, and what a CUDA binary says of itself."""

import dataclasses
import struct

import pytest

from inductord.compiler import accelerator, cubin
from inductord.compiler.accelerator import Accelerator, DescriptionError

pytestmark = pytest.mark.unit

H100 = Accelerator("cuda", "NVIDIA H100", "90", "cuda 13.0", {"multi_processor_count": 132, "warp_size": 32}, 8)


def test_a_description_comes_back_as_it_was_sent() -> None:
    assert accelerator.from_message(H100.message()) == H100


def test_the_identity_is_of_the_model_and_not_of_how_many_there_are() -> None:
    assert H100.identity.startswith("NVIDIA H100 90 cuda 13.0 #")
    assert dataclasses.replace(H100, count=1).identity == H100.identity
    for change in (
        {"name": "NVIDIA H200"},
        {"arch": "100"},
        {"runtime": "cuda 12.8"},
        {"properties": {"warp_size": 64}},
    ):
        assert dataclasses.replace(H100, **change).identity != H100.identity


@pytest.mark.parametrize("properties", ["", "[]", '{"warp_size": [32]}', '{"warp_size": null}'])
def test_a_description_that_is_none_is_refused(properties: str) -> None:
    message = H100.message()
    message.properties = properties
    with pytest.raises(DescriptionError):
        accelerator.from_message(message)


def elf(*sections: tuple[str, int, bytes]) -> bytes:
    """A 64-bit ELF file with these sections: name, ``sh_info``, content."""
    names = b"\0" + b"".join(name.encode() + b"\0" for name, _, _ in sections) + b".shstrtab\0"
    body, headers, name_at = b"", [struct.pack("<IIQQQQIIQQ", *[0] * 10)], 1
    for name, info, content in (*sections, (".shstrtab", 0, names)):
        headers.append(struct.pack("<IIQQQQIIQQ", name_at, 1, 0, 0, 64 + len(body), len(content), 0, info, 0, 0))
        name_at += len(name) + 1
        body += content
    header = b"\x7fELF\x02\x01" + bytes(10) + struct.pack("<HHIQQQ", 2, 190, 1, 0, 0, 64 + len(body))
    return header + struct.pack("<IHHHHHH", 0, 64, 0, 0, 64, len(headers), len(headers) - 1) + body + b"".join(headers)


def test_registers_stand_with_the_code() -> None:
    assert cubin.registers(elf((".text.kernel", 47 << 24 | 9, b"code"))) == 47


def test_registers_stand_among_the_attributes() -> None:
    other = struct.pack("<BBH", 3, 0x1B, 255) + struct.pack("<BBHII", 4, 0x11, 8, 5, 99)
    assert cubin.registers(elf((".nv.info", 0, other + struct.pack("<BBHII", 4, 0x2F, 8, 5, 31)))) == 31


@pytest.mark.parametrize(
    "content", [b"", b"\x7fELF", elf(), elf((".text.kernel", 0, b""))[:80], elf((".data", 0, b"x"))], ids=range(5)
)
def test_what_says_nothing_of_registers_is_refused(content: bytes) -> None:
    with pytest.raises(cubin.NotACubin):
        cubin.registers(content)
