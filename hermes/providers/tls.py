"""The TLS context of outgoing connections, built when the first https address is used."""

import os.path
import ssl
from collections.abc import Mapping

from hermes.core.errors import TransportError
from hermes.core.outcomes import FailureKind

# Where distributions keep their bundle, for interpreters whose own default path does not exist.
_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)


def create_tls_context(environ: Mapping[str, str], ca_file: str = "") -> ssl.SSLContext:
    """Create a verifying client context.

    SSL_CERT_FILE and SSL_CERT_DIR in `environ` replace the system's certificates, as everywhere; `ca_file`
    (from the config) is trusted beside them. Raises `TransportError` when one of them cannot be read.
    """
    file, folder = environ.get("SSL_CERT_FILE", ""), environ.get("SSL_CERT_DIR", "")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_alpn_protocols(["http/1.1"])
    if file or folder:
        _load_certificates(context, file, folder, "SSL_CERT_FILE or SSL_CERT_DIR")
    else:
        _load_system_certificates(context)
    if ca_file:
        _load_certificates(context, ca_file, "", "the configured CA file")
    return context


def _load_certificates(context: ssl.SSLContext, file: str, folder: str, source: str) -> None:
    try:
        context.load_verify_locations(file or None, folder or None)
    except (OSError, ssl.SSLError) as error:
        raise TransportError(
            FailureKind.TLS,
            f"The certificates at {file or folder} cannot be read: {error.strerror or error}.",
            f"Check {source}.",
        ) from error


def _load_system_certificates(context: ssl.SSLContext) -> None:
    paths = ssl.get_default_verify_paths()
    file = paths.openssl_cafile if os.path.isfile(paths.openssl_cafile) else ""
    if not file:
        file = next((path for path in _BUNDLES if os.path.isfile(path)), "")
    folder = paths.openssl_capath if not file and os.path.isdir(paths.openssl_capath) else ""
    if file or folder:
        context.load_verify_locations(file or None, folder or None)
    else:
        context.load_default_certs()
