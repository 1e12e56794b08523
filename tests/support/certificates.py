"""Certificate authorities of the tests' own, and what they sign."""

import dataclasses
import datetime
import ipaddress
import os
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_DAY = datetime.timedelta(days=1)


@dataclasses.dataclass(frozen=True)
class Pair:
    """Files of a certificate and its key."""

    cert: Path
    key: Path

    def replace(self, other: "Pair") -> None:
        """Put the other's content in place of ours, as tools that rotate certificates do: by renaming."""
        for ours, theirs in ((self.cert, other.cert), (self.key, other.key)):
            replace(ours, theirs.read_bytes())


def replace(path: Path, content: bytes) -> None:
    """Change a file whole."""
    part = path.with_name(path.name + ".part")
    part.write_bytes(content)
    os.replace(part, path)


class Authority:
    """Signs certificates. ``ca`` is the file of its own."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self._folder = folder / name
        self._folder.mkdir(parents=True)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named(name)
        self._count = 0
        self.ca = self._folder / "ca.pem"
        self.ca.write_bytes(
            _pem(self._sign(self._name, self._key.public_key(), is_ca=True, ended=False, alternatives=()))
        )

    def issue(
        self,
        name: str | None,
        *,
        hosts: Sequence[str] = ("localhost", "127.0.0.1"),
        ids: Sequence[str] = (),
        ended: bool = False,
    ) -> Pair:
        """A certificate for a common name (or none), for hosts, with IDs as URIs. ``ended``: no longer valid."""
        self._count += 1
        key = ec.generate_private_key(ec.SECP256R1())
        alternatives: list[x509.GeneralName] = [x509.UniformResourceIdentifier(each) for each in ids]
        for host in hosts:
            try:
                alternatives.append(x509.IPAddress(ipaddress.ip_address(host)))
            except ValueError:
                alternatives.append(x509.DNSName(host))
        subject = _named(name) if name is not None else x509.Name([])
        signed = self._sign(subject, key.public_key(), is_ca=False, ended=ended, alternatives=alternatives)
        pair = Pair(self._folder / f"{self._count}.pem", self._folder / f"{self._count}.key")
        pair.cert.write_bytes(_pem(signed))
        pair.key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return pair

    def _sign(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePublicKey,
        *,
        is_ca: bool,
        ended: bool,
        alternatives: Sequence[x509.GeneralName],
    ) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - 2 * _DAY)
            .not_valid_after(now - _DAY if ended else now + _DAY)
            .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
        )
        if alternatives:
            builder = builder.add_extension(x509.SubjectAlternativeName(list(alternatives)), critical=False)
        return builder.sign(self._key, hashes.SHA256())


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
