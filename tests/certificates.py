"""Certificates made at run time, for tests of good and bad TLS."""

import ssl
from pathlib import Path

import trustme


def certificate(folder: Path, host: str = "127.0.0.1") -> tuple[ssl.SSLContext, Path]:
    """A server's context with a certificate for `host`, and the file of the authority that vouches for it."""
    authority = trustme.CA()
    vouching = folder / "authority.pem"
    authority.cert_pem.write_to_path(str(vouching))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(host).configure_cert(context)
    return context, vouching
