"""Certificates made at run time, for tests of good and bad TLS."""

import ssl
import subprocess
from pathlib import Path

from msgspec import Struct


class Certificate(Struct, frozen=True):
    """A certificate with its key, as files; being self-signed it is its own authority."""

    certificate: Path
    key: Path

    def server_context(self) -> ssl.SSLContext:
        """For `ScriptedServer(tls=...)`."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, self.key)
        return context


def self_signed(folder: Path, *, host: str = "127.0.0.1", days: int = 2) -> Certificate:
    """Make a self-signed certificate for `host` with the `openssl` command (Debian: openssl).

    A negative number of days makes an expired one.
    """
    made = Certificate(folder / "certificate.pem", folder / "key.pem")
    kind = "IP" if host.replace(".", "").isdigit() else "DNS"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-keyout", str(made.key), "-out", str(made.certificate), "-days", str(days), "-subj", f"/CN={host}"]
    command += ["-addext", f"subjectAltName={kind}:{host}"]
    subprocess.run(command, check=True, capture_output=True, timeout=30)
    return made
