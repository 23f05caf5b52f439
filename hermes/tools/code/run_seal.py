"""Proves that a stored run of code was written by this home's own Hermes: what runs on from it decides about calls."""

import contextlib
import hashlib
import hmac
import os
import secrets
from pathlib import Path

from msgspec import structs

from hermes.core.code_runs import CodeRunState
from hermes.core.encoding import to_json

_KEY_BYTES = 32


def load_key(path: Path) -> bytes:
    """Return the key of this home; it is made when it is first needed. Raises OSError."""
    with contextlib.suppress(FileNotFoundError):
        return _read_key(path)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    made = path.with_name(f"{path.name}.{os.getpid()}-{secrets.token_hex(4)}")
    handle = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(secrets.token_bytes(_KEY_BYTES))
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):  # another process was first: its key counts
            os.link(made, path)
    finally:
        made.unlink(missing_ok=True)
    return _read_key(path)


def _read_key(path: Path) -> bytes:
    key = path.read_bytes()
    if len(key) != _KEY_BYTES:
        raise OSError(f"{path} is no key")
    return key


def seal_state(state: CodeRunState, key: bytes, *about: str) -> CodeRunState:
    """Return the state with its proof; `about` says which run it is."""
    return structs.replace(state, mac=_compute_mac(state, key, about))


def is_genuine(state: CodeRunState, key: bytes, *about: str) -> bool:
    """Return whether the state was sealed with this key, for this run, and not changed since."""
    return hmac.compare_digest(state.mac, _compute_mac(state, key, about))


def _compute_mac(state: CodeRunState, key: bytes, about: tuple[str, ...]) -> bytes:
    bare = structs.replace(state, mac=b"", dump=hashlib.sha256(state.dump).digest())
    return hmac.digest(key, to_json((about, bare)), "sha256")


def digest_call(name: str, arguments: str) -> str:
    """Return a short digest of what a call is."""
    return hashlib.sha256(f"{name}\0{arguments}".encode("utf-8", "surrogatepass")).hexdigest()[:24]
