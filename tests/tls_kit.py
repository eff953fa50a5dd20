"""A certificate for this machine, signed by an issuer that only the test knows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def write_certificate(folder: Path, *hosts: str) -> tuple[Path, Path, Path]:
    """Write a certificate for host names. Return its file, that of its key, and of its issuer."""
    issuer_key, issuer = ec.generate_private_key(ec.SECP256R1()), _name("Test issuer")
    authority = _build(issuer, issuer_key, issuer, issuer_key, []).public_bytes(_PEM)
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = _build(_name(hosts[0]), key, issuer, issuer_key, [*hosts]).public_bytes(_PEM)
    encoded = key.private_bytes(
        _PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    files = folder / "cert.pem", folder / "key.pem", folder / "ca.pem"
    for file, data in zip(files, (certificate, encoded, authority), strict=True):
        file.touch(0o600)
        file.write_bytes(data)
    return files


_PEM = serialization.Encoding.PEM


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _build(
    subject: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    issuer: x509.Name,
    issuer_key: ec.EllipticCurvePrivateKey,
    hosts: list[str],
) -> x509.Certificate:
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=not hosts, path_length=None), critical=True)
    )
    if hosts:
        names = [_host(host) for host in hosts]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(issuer_key, hashes.SHA256())


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)
