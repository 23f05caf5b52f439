"""Where the certificates come from that servers are checked against."""

import importlib.util
from pathlib import Path

import pytest

from hermes.core.errors import TransportError
from hermes.providers.http_common import create_tls_context, find_certificates
from tests.certificates import certificate


def test_the_environment_comes_first_then_nix_then_the_interpreter_then_distributions(tmp_path: Path) -> None:
    nix, own, other = (tmp_path / name for name in ("nix.pem", "own.pem", "other.pem"))
    folder = tmp_path / "certs"
    folder.mkdir()
    environ = {"NIX_SSL_CERT_FILE": str(nix)}

    def find() -> tuple[str, str]:
        return find_certificates(environ, str(own), str(folder), (str(tmp_path / "none.pem"), str(other)))

    spec = importlib.util.find_spec("certifi")
    bundled = (str(Path(spec.origin or "").with_name("cacert.pem")), "") if spec is not None else ("", "")
    assert find() == bundled, "an empty folder has no certificates"
    (folder / "a.0").touch()
    for file in (other, own, nix):
        assert find() == (("", str(folder)) if file is other else (str({own: other, nix: own}[file]), ""))
        file.touch()
    assert find() == (str(nix), "")


def test_the_file_that_the_environment_names_is_the_only_one_that_is_trusted(tmp_path: Path) -> None:
    _, vouching = certificate(tmp_path)
    for name in ("SSL_CERT_FILE", "NIX_SSL_CERT_FILE"):
        assert len(create_tls_context({name: str(vouching)}).get_ca_certs()) == 1
    both = {"SSL_CERT_FILE": str(vouching), "NIX_SSL_CERT_FILE": str(tmp_path / "no.pem")}
    assert len(create_tls_context(both).get_ca_certs()) == 1
    create_tls_context({"NIX_SSL_CERT_FILE": "/no-cert-file.crt"})
    with pytest.raises(TransportError, match="cannot be read"):
        create_tls_context({"SSL_CERT_FILE": "/no-cert-file.crt"})
