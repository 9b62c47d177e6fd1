"""Certificates for servers of the tests, of an authority that the tests make."""

from dataclasses import dataclass
from pathlib import Path

import trustme

NAMES = ("localhost", "127.0.0.1")


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateFiles:
    """The files of a certificate and of its key, and that of the authority that signed it."""

    certificate: Path
    key: Path
    authority: Path

    @property
    def options(self) -> tuple[str, ...]:
        """Return the options of `acker serve`."""
        return ("--tls-cert", str(self.certificate), "--tls-key", str(self.key))


def issue(folder: Path, *names: str, authority: trustme.CA | None = None) -> CertificateFiles:
    """Write a certificate for names of this machine, or for others, in the place of what was there."""
    authority = authority or trustme.CA()
    issued = authority.issue_cert(*(names or NAMES))
    files = CertificateFiles(certificate=folder / "tls.crt", key=folder / "tls.key", authority=folder / "authority.pem")
    files.certificate.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
    files.key.write_bytes(issued.private_key_pem.bytes())
    authority.cert_pem.write_to_path(files.authority)
    return files
