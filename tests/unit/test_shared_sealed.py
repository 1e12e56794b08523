"""Sealed objects and their keys: whatever was changed, replayed or signed by somebody else is refused, by its reason."""

import hashlib
import logging
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.stores import META, artifact, key_file, key_of, no_reload

from inductord.daemon.shared import keys
from inductord.daemon.shared.errors import KeysUnusable
from inductord.daemon.shared.keys import KeyFile, Keyring
from inductord.daemon.shared.sealed import MAX_HEADER_BYTES, Refusal, Refused, Unsealed, artifact_entry, seal, unseal
from inductord.v1.sealed_pb2 import SEALED_CONTENT_ARTIFACT, SEALED_CONTENT_GRAPH

pytestmark = pytest.mark.unit

RING = Keyring((b"a" * 32,))
OTHER = Keyring((b"b" * 32,))
KEY = key_of(1)
DATA = artifact(1, 3000)
ENTRY = artifact_entry(KEY, len(DATA), hashlib.sha256(DATA).digest(), META, 1.0)
HEADER = seal(ENTRY, "red", SEALED_CONTENT_ARTIFACT, RING)
OBJECT = HEADER + DATA
# Prefix: magic, signer, signature, length of the header.
REGIONS = {"magic": (0, 8), "signer": (8, 16), "mac": (16, 48), "length": (48, 52)}
REGIONS |= {"header": (52, len(HEADER)), "content": (len(HEADER), len(OBJECT))}
REASONS = {
    "magic": {Refusal.MALFORMED},
    "signer": {Refusal.UNKNOWN_KEY},
    "mac": {Refusal.BAD_SIGNATURE},
    # The header then begins or ends elsewhere.
    "length": {Refusal.MALFORMED, Refusal.BAD_SIGNATURE},
    "header": {Refusal.BAD_SIGNATURE},
    "content": {Refusal.WRONG_DIGEST},
}


def opened(data: bytes, ring: Keyring | None = RING, *, key: str = KEY, tenant: str = "red") -> Unsealed:
    return unseal(data, ring, key=key, tenant=tenant, content=SEALED_CONTENT_ARTIFACT)


def refusal(data: bytes, ring: Keyring | None = RING, **asked: str) -> Refusal:
    with pytest.raises(Refused) as caught:
        opened(data, ring, **asked)
    assert "61616161" not in str(caught.value)
    return caught.value.reason


def test_what_was_sealed_comes_back_with_all_that_is_known_of_it() -> None:
    found = opened(OBJECT)
    assert (found.content, found.meta()) == (DATA, META)
    assert found.entry == ENTRY


@pytest.mark.parametrize("region", REGIONS)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_flipped_bit_anywhere_is_refused(region: str, data: st.DataObject) -> None:
    start, end = REGIONS[region]
    place = data.draw(st.integers(start, end - 1))
    bit = data.draw(st.integers(0, 7))
    changed = bytearray(OBJECT)
    changed[place] ^= 1 << bit
    assert refusal(bytes(changed)) in REASONS[region]


@settings(max_examples=60, deadline=None)
@given(length=st.integers(0, len(OBJECT) - 1))
def test_a_truncated_object_is_refused(length: int) -> None:
    expected = Refusal.WRONG_SIZE if length >= len(HEADER) else Refusal.MALFORMED
    assert refusal(OBJECT[:length]) == expected


@settings(max_examples=60, deadline=None)
@given(more=st.binary(min_size=1, max_size=100))
def test_an_object_with_more_behind_it_is_refused(more: bytes) -> None:
    assert refusal(OBJECT + more) == Refusal.WRONG_SIZE


@settings(max_examples=100, deadline=None)
@given(garbage=st.binary(max_size=400))
def test_garbage_is_refused_whether_or_not_a_signature_is_asked_for(garbage: bytes) -> None:
    for ring in (RING, None):
        assert refusal(garbage, ring) == Refusal.MALFORMED
        assert refusal(b"inductS1" + garbage, ring) in {
            Refusal.MALFORMED,
            Refusal.UNSIGNED,
            Refusal.UNKNOWN_KEY,
            Refusal.OTHER_FORMAT,
        }


def test_a_replay_under_another_key_or_tenant_is_refused() -> None:
    assert refusal(OBJECT, key=key_of(2)) == Refusal.OTHER_KEY
    assert refusal(OBJECT, tenant="blue") == Refusal.OTHER_TENANT
    assert refusal(OBJECT, tenant="") == Refusal.OTHER_TENANT


def test_a_graph_is_no_artifact_and_another_format_is_not_read() -> None:
    assert refusal(seal(ENTRY, "red", SEALED_CONTENT_GRAPH, RING) + DATA) == Refusal.OTHER_CONTENT


def test_a_forged_object_is_refused() -> None:
    evil = b"evil" * 100
    entry = artifact_entry(KEY, len(evil), hashlib.sha256(evil).digest(), META, 1.0)
    assert refusal(seal(entry, "red", SEALED_CONTENT_ARTIFACT, OTHER) + evil) == Refusal.UNKNOWN_KEY
    assert refusal(seal(entry, "red", SEALED_CONTENT_ARTIFACT, None) + evil) == Refusal.UNSIGNED
    # With the identity of our key, which every object tells, and without its secret.
    forged = bytearray(seal(entry, "red", SEALED_CONTENT_ARTIFACT, OTHER) + evil)
    forged[8:16] = RING.signer
    assert refusal(bytes(forged)) == Refusal.BAD_SIGNATURE
    # A good header before another content.
    assert refusal(HEADER + evil.ljust(len(DATA), b"x")) == Refusal.WRONG_DIGEST


def test_without_keys_only_what_a_digest_can_tell_is_checked() -> None:
    unsigned = seal(ENTRY, "red", SEALED_CONTENT_ARTIFACT, None) + DATA
    assert opened(unsigned, None).content == DATA
    assert refusal(unsigned[:-1] + b"\0", None) in {Refusal.WRONG_DIGEST}
    assert refusal(unsigned, None, key=key_of(2)) == Refusal.OTHER_KEY


def test_a_header_is_bounded() -> None:
    with pytest.raises(ValueError, match="header"):
        seal(ENTRY, "t" * MAX_HEADER_BYTES, SEALED_CONTENT_ARTIFACT, RING)
    huge = bytearray(OBJECT)
    huge[48:52] = (MAX_HEADER_BYTES + 1).to_bytes(4, "big")
    assert refusal(bytes(huge) + bytes(MAX_HEADER_BYTES)) == Refusal.MALFORMED


# Keys


def test_rotated_keys_verify_what_old_and_new_ones_signed(tmp_path: Path) -> None:
    path = key_file(tmp_path)
    old = keys.read(path)
    standby = keys.add_new(path, standby=True)
    assert (standby.signer, len(standby.keys)) == (old.signer, 2)
    by_old = seal(ENTRY, "red", SEALED_CONTENT_ARTIFACT, standby) + DATA
    new = Keyring((standby.keys[1], standby.keys[0]))
    by_new = seal(ENTRY, "red", SEALED_CONTENT_ARTIFACT, new) + DATA
    for ring in (standby, new):
        assert opened(by_old, ring).content == opened(by_new, ring).content == DATA
    retired = Keyring(new.keys[:1])
    assert opened(by_new, retired).content == DATA
    assert refusal(by_old, retired) == Refusal.UNKNOWN_KEY
    assert keys.add_new(path, standby=False).signer not in (old.signer, new.signer)


def test_a_file_of_keys_is_private_and_read_again_when_it_changes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = key_file(tmp_path)
    assert path.stat().st_mode & 0o777 == 0o600
    failed: list[int] = []
    clock = iter(range(0, 1000, 10))
    file = KeyFile(path, lambda: failed.append(1), lambda: next(clock))
    first = file.current()
    second = keys.add_new(path, standby=False)
    assert file.current() == second != first
    with caplog.at_level(logging.ERROR):
        path.write_text("secret nonsense")
        assert file.current() == second
        path.unlink()
        assert file.current() == second
    assert (len(caplog.records), len(failed)) == (2, 2)
    assert "secret" not in caplog.text
    assert second.keys[0].hex() not in repr(second)


@pytest.mark.parametrize(
    "text", ["", "# nothing", "ab" * 31, "xy" * 32, "ab" * 32 + "\nshort", "é" * 64, "ab" * 32 + "\n" + "cd " * 99_999]
)
def test_a_file_that_is_none_of_keys_is_refused_without_showing_it(tmp_path: Path, text: str) -> None:
    path = tmp_path / "keys"
    path.write_text(text)
    with pytest.raises(KeysUnusable) as caught:
        KeyFile(path, no_reload)
    assert "abab" not in str(caught.value)
    with pytest.raises(KeysUnusable):
        KeyFile(tmp_path / "absent", no_reload)


def test_a_file_that_everybody_can_read_is_warned_about(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = key_file(tmp_path)
    path.chmod(0o644)
    KeyFile(path, no_reload)
    assert "chmod 600" in caplog.text
