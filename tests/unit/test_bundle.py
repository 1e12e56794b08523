"""Bundles: what is written is read; tricks with names, kinds, sizes, order and signatures are refused by their reason."""

import hashlib
import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.stores import META, artifact, key_of

from inductord.daemon.bundle import BundleReader, BundleRefused, Listed, Member, write_bundle
from inductord.daemon.shared.keys import Keyring
from inductord.daemon.shared.sealed import Refusal, artifact_entry, seal
from inductord.v1.admin_pb2 import Entry
from inductord.v1.sealed_pb2 import SEALED_CONTENT_ARTIFACT, SEALED_CONTENT_GRAPH

pytestmark = pytest.mark.unit

RING = Keyring((b"a" * 32,))
OTHER = Keyring((b"b" * 32,))
DATA = {key_of(number): artifact(number, 2000 + number) for number in range(3)}
KEYS = list(DATA)


def entry(key: str, data: bytes) -> Entry:
    return artifact_entry(key, len(data), hashlib.sha256(data).digest(), META, 1.0)


LISTED = [Listed(key, len(data), hashlib.sha256(data).hexdigest()) for key, data in DATA.items()]


def write(path: Path, ring: Keyring | None = RING) -> Path:
    assert (
        write_bundle(path, SEALED_CONTENT_ARTIFACT, LISTED, lambda key: (entry(key, DATA[key]), DATA[key]), ring) == []
    )
    return path


def read(path: Path, ring: Keyring | None = RING) -> list[Member]:
    with BundleReader(path, SEALED_CONTENT_ARTIFACT, ring, 10_000) as reader:
        return list(reader.members())


def reasons(path: Path, ring: Keyring | None = RING) -> list[str | None]:
    return [member.refusal for member in read(path, ring)]


def refusal(path: Path, ring: Keyring | None = RING) -> Refusal:
    with pytest.raises(BundleRefused) as caught:
        read(path, ring)
    return caught.value.reason


def as_far_as_it_goes(path: Path) -> tuple[list[Member], Refusal | None]:
    """What is read before the bundle itself is refused, if it is."""
    taken: list[Member] = []
    try:
        with BundleReader(path, SEALED_CONTENT_ARTIFACT, RING, 10_000) as reader:
            for each in reader.members():
                taken.append(each)
    except BundleRefused as refused:
        return taken, refused.reason
    return taken, None


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return write(tmp_path / "bundle.tar")


def rebuilt(
    path: Path, change: Callable[[list[tuple[tarfile.TarInfo, bytes]]], None], form: int = tarfile.USTAR_FORMAT
) -> Path:
    """The bundle with its members changed."""
    with tarfile.open(path) as tar:
        members = [(info, tar.extractfile(info).read()) for info in tar]  # type: ignore[union-attr]
    change(members)
    with tarfile.open(path, "w:", format=form) as tar:
        for info, data in members:
            if info.isreg():
                info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info


@pytest.mark.parametrize("ring", [RING, None], ids=["signed", "unsigned"])
def test_what_was_written_is_read(tmp_path: Path, ring: Keyring | None) -> None:
    done: list[int] = []
    path = tmp_path / "bundle.tar"
    write_bundle(
        path, SEALED_CONTENT_ARTIFACT, LISTED, lambda key: (entry(key, DATA[key]), DATA[key]), ring, done.append
    )
    found = {each.unsealed.entry.key: each.unsealed for each in read(path, ring) if each.unsealed}
    assert {key: each.content for key, each in found.items()} == DATA
    assert all(each.meta() == META for each in found.values())
    assert done == [1, 2, 3]
    assert [each.name for each in tmp_path.iterdir()] == ["bundle.tar"]


def test_what_went_from_the_store_meanwhile_is_told(tmp_path: Path) -> None:
    path = tmp_path / "bundle.tar"
    gone, changed, kept = KEYS

    def give(key: str) -> tuple[Entry, bytes] | None:
        data = b"other" if key == changed else DATA[key]
        return None if key == gone else (entry(key, data), data)

    assert write_bundle(path, SEALED_CONTENT_ARTIFACT, LISTED, give, RING) == [gone, changed]
    assert [each.listed.key for each in read(path) if each.listed] == [kept]


def test_a_write_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def fails(key: str) -> None:
        raise OSError("disk")

    with pytest.raises(OSError, match="disk"):
        write_bundle(tmp_path / "bundle.tar", SEALED_CONTENT_ARTIFACT, LISTED, fails, RING)
    assert list(tmp_path.iterdir()) == []


def test_signatures_are_asked_for(tmp_path: Path, bundle: Path) -> None:
    assert refusal(bundle, OTHER) == Refusal.UNKNOWN_KEY
    unsigned = write(tmp_path / "unsigned.tar", None)
    assert refusal(unsigned) == Refusal.UNSIGNED
    assert reasons(unsigned, None) == [None] * 3
    # Rotated: a later key signs, the earlier one still verifies.
    assert reasons(bundle, Keyring((b"c" * 32, b"a" * 32))) == [None] * 3


def test_a_changed_manifest_is_refused(bundle: Path) -> None:
    def add(members: list[tuple[tarfile.TarInfo, bytes]]) -> None:
        info, text = members[0]
        manifest = json.loads(text)
        manifest["objects"].append({"key": key_of(9), "size": 1, "sha256": key_of(9)})
        members[0] = (info, json.dumps(manifest).encode())

    assert refusal(rebuilt(bundle, add)) == Refusal.BAD_SIGNATURE


def test_a_forged_object_in_a_signed_bundle_is_refused(bundle: Path) -> None:
    key = KEYS[0]
    for ring, reason in ((OTHER, Refusal.UNKNOWN_KEY), (None, Refusal.UNSIGNED)):
        evil = b"x" * len(DATA[key])
        forged = seal(entry(key, evil), "", SEALED_CONTENT_ARTIFACT, ring) + evil

        def swap(members: list[tuple[tarfile.TarInfo, bytes]], forged: bytes = forged) -> None:
            members[2] = (members[2][0], forged)

        assert reasons(rebuilt(bundle, swap)) == [reason, None, None]


def test_a_good_object_of_another_bundle_or_under_another_key_is_refused(bundle: Path) -> None:
    other = b"y" * len(DATA[KEYS[0]])
    elsewhere = seal(entry(KEYS[0], other), "", SEALED_CONTENT_ARTIFACT, RING) + other

    def swap(members: list[tuple[tarfile.TarInfo, bytes]]) -> None:
        members[2] = (members[2][0], elsewhere)
        members[3], members[4] = (members[3][0], members[4][1]), (members[4][0], members[3][1])

    assert reasons(rebuilt(bundle, swap)) == [Refusal.WRONG_DIGEST, Refusal.OTHER_KEY, Refusal.OTHER_KEY]


@pytest.mark.parametrize(
    ("trick", "reason"),
    [
        (member("../../etc/cron.d/evil"), "not_listed"),
        (member("/etc/passwd"), "not_listed"),
        (member("objects/../" + KEYS[0]), "not_listed"),
        (member("objects/" + KEYS[0] + "/x"), "not_listed"),
        (member("objects/" + key_of(77)), "not_listed"),
        (member("objects/" + KEYS[0].upper()), "not_listed"),
        (member("objects/"), "not_listed"),
        (member("manifest.json"), "not_listed"),
        (member("objects/" + KEYS[0], tarfile.SYMTYPE, "/etc/shadow"), "not_a_file"),
        (member("objects/" + KEYS[0], tarfile.LNKTYPE, "objects/" + KEYS[1]), "not_a_file"),
        (member("objects/" + KEYS[0], tarfile.CHRTYPE), "not_a_file"),
        (member("objects/" + KEYS[0], tarfile.BLKTYPE), "not_a_file"),
        (member("objects/" + KEYS[0], tarfile.FIFOTYPE), "not_a_file"),
        (member("objects/" + KEYS[0], tarfile.DIRTYPE), "not_a_file"),
        (member("objects/" + KEYS[0]), "wrong_size"),
    ],
    ids=lambda value: f"{value.name[:24]}-{value.type.decode()}" if isinstance(value, tarfile.TarInfo) else None,
)
def test_path_tricks_are_refused_and_the_rest_is_taken(bundle: Path, trick: tarfile.TarInfo, reason: str) -> None:
    taken = 0 if reason == "wrong_size" else 1

    def insert(members: list[tuple[tarfile.TarInfo, bytes]]) -> None:
        members.insert(2, (trick, b""))

    found = reasons(rebuilt(bundle, insert))
    assert found == [reason, None, None, None] if taken else [reason, "twice", None, None]
    assert sorted(path.name for path in bundle.parent.iterdir()) == ["bundle.tar"]


def test_the_same_name_twice_is_taken_once(bundle: Path) -> None:
    assert reasons(rebuilt(bundle, lambda members: members.append(members[2]))) == [None, None, None, "twice"]


@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT], ids=["pax", "gnu"])
def test_headers_that_make_a_reader_read_on_are_refused(bundle: Path, form: int) -> None:
    long_name = lambda members: members.append((member("objects/" + "x" * 300), b""))  # noqa: E731
    rebuilt(bundle, long_name, form)
    with BundleReader(bundle, SEALED_CONTENT_ARTIFACT, RING, 10_000) as reader:
        taken = []
        with pytest.raises(BundleRefused) as caught:
            taken += (each.refusal for each in reader.members())
    assert caught.value.reason == Refusal.MALFORMED


def with_size(path: Path, number: int, field: bytes) -> None:
    """Put a size into the header of a member, with its checksum made to fit."""
    data = bytearray(path.read_bytes())
    with tarfile.open(path) as tar:
        offset = tar.getmembers()[number].offset
    data[offset + 124 : offset + 136] = field
    data[offset + 148 : offset + 156] = b" " * 8
    data[offset + 148 : offset + 156] = b"%06o\0 " % sum(data[offset : offset + 512])
    path.write_bytes(data)


@pytest.mark.parametrize(
    "field",
    [b"77777777777\0", b"\x80" + (1 << 60).to_bytes(11, "big"), b"\xff" + b"\xff" * 9 + b"\xfe\x00"],
    ids=["8GiB", "EiB", "negative"],
)
@pytest.mark.parametrize("number", [0, 2], ids=["manifest", "object"])
def test_sizes_that_lie_cost_nothing(bundle: Path, number: int, field: bytes) -> None:
    with_size(bundle, number, field)
    taken, refused = as_far_as_it_goes(bundle)
    assert not [each for each in taken if each.unsealed]
    if number == 0:
        assert (taken, refused in {Refusal.TOO_LARGE, Refusal.MALFORMED}) == ([], True)
    else:
        # Refused by itself, with all that cannot be reached behind it, or with the header that no bundle has.
        assert ([each.refusal for each in taken], refused) in (
            ([Refusal.WRONG_SIZE], Refusal.MALFORMED),
            ([], Refusal.MALFORMED),
        )


def test_an_object_over_the_limit_is_refused_by_what_the_manifest_says(bundle: Path) -> None:
    with BundleReader(bundle, SEALED_CONTENT_ARTIFACT, RING, 2001) as reader:
        assert [each.refusal for each in reader.members()] == [None, None, Refusal.TOO_LARGE]


def test_a_file_of_endless_members_has_an_end(bundle: Path) -> None:
    rebuilt(bundle, lambda members: members.extend([(member("x"), b"")] * 100))
    assert refusal(bundle) == Refusal.MALFORMED


@pytest.mark.parametrize(
    "manifest",
    [b"", b"[]", b"{}", b"null", b"[" * 100_000, b'{"format": 2}', b'{"format": 1, "content": "graphs", "objects": []}']
    + [
        b'{"format": 1, "content": "artifacts", "objects": %s}' % objects
        for objects in (
            b"3",
            b"[1]",
            b'[{"key": "../x", "size": 1, "sha256": ""}]',
            b'[{"key": "%s", "size": -1, "sha256": "%s"}]' % (b"a" * 64, b"a" * 64),
        )
    ],
)
def test_a_manifest_that_says_nonsense_is_refused(tmp_path: Path, manifest: bytes) -> None:
    path = tmp_path / "bundle.tar"
    with tarfile.open(path, "w:", format=tarfile.USTAR_FORMAT) as tar:
        info = member("manifest.json")
        info.size = len(manifest)
        tar.addfile(info, io.BytesIO(manifest))
    assert refusal(path, None) in {Refusal.MALFORMED, Refusal.OTHER_FORMAT, Refusal.OTHER_CONTENT}


def test_artifacts_are_no_graphs(bundle: Path) -> None:
    with pytest.raises(BundleRefused) as caught:
        BundleReader(bundle, SEALED_CONTENT_GRAPH, RING, 10_000)
    assert caught.value.reason == Refusal.OTHER_CONTENT


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damage_anywhere_never_gives_another_artifact(tmp_path: Path, data: st.DataObject) -> None:
    """Flipped bits, cuts and garbage: each artifact comes as it was or not at all."""
    path = write(tmp_path / f"{data.draw(st.integers(0, 1 << 60))}.tar")
    content = bytearray(path.read_bytes())
    match data.draw(st.sampled_from(["flip", "cut", "splice"])):
        case "flip":
            content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
        case "cut":
            del content[data.draw(st.integers(0, len(content) - 1)) :]
        case _:
            start = data.draw(st.integers(0, len(content) - 1))
            content[start : start + data.draw(st.integers(0, 600))] = data.draw(st.binary(max_size=600))
    path.write_bytes(content)
    taken, refused = as_far_as_it_goes(path)
    path.unlink()
    assert refused is None or refused in set(Refusal)
    for each in taken:
        assert (each.unsealed is None) != (each.refusal is None)
        if each.unsealed is not None:
            assert each.unsealed.content == DATA[each.unsealed.entry.key]
