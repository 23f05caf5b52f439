"""The key of a home, and the proofs of stored runs made with it."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from msgspec import structs

from hermes.core.code_runs import CodeRunState
from hermes.tools.code.run_seal import digest_call, is_genuine, load_key, seal_state

STATE = CodeRunState(engine="monty", version="1", calls=3, dump=b"state", printed="x", sources=("web:a",))
KEY = b"k" * 32


def test_a_key_is_made_once_and_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "home" / "code.key"
    with ThreadPoolExecutor(8) as pool:
        keys = set(pool.map(lambda _: load_key(path), range(40)))
    assert len(keys) == 1
    assert path.stat().st_mode & 0o777 == 0o600
    assert [one.name for one in path.parent.iterdir()] == ["code.key"]


def test_a_file_that_is_no_key_is_not_used(tmp_path: Path) -> None:
    path = tmp_path / "code.key"
    path.write_bytes(b"short")
    with pytest.raises(OSError, match="is no key"):
        load_key(path)


def test_a_proof_is_for_one_state_of_one_run() -> None:
    sealed = seal_state(STATE, KEY, "session", "call", "code")
    assert is_genuine(sealed, KEY, "session", "call", "code")
    assert not is_genuine(sealed, KEY, "session", "call", "other code")
    assert not is_genuine(sealed, b"o" * 32, "session", "call", "code")
    for name, value in (("dump", b"x"), ("printed", "y"), ("calls", 4), ("version", "2"), ("sources", ())):
        assert not is_genuine(structs.replace(sealed, **{name: value}), KEY, "session", "call", "code"), name


def test_a_digest_tells_calls_apart() -> None:
    assert digest_call("a", "b") != digest_call("a", "c")
    assert digest_call("a", "b") != digest_call("ab", "")
