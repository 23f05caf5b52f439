"""Where keys come from: programs, variables, the keyring; and what is said when there is none."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from hermes.core.errors import ConfigError
from hermes.llm.key_sources import CommandKeySource, KeyringKeySource, VariableKeySource
from hermes.providers.records import list_variable_keys
from hermes.testing.home import TempHome

SECRET = "sk-" + os.urandom(12).hex()


def program(tmp_path: Path, text: str) -> str:
    file = tmp_path / "vault"
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o700)
    return f"'{file}' read op://vault/item"


async def test_a_program_gives_its_output(tmp_path: Path) -> None:
    assert await CommandKeySource(program(tmp_path, f"echo {SECRET}"), {"PATH": os.defpath}).read_key() == SECRET


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("echo $SECRET; echo 'not signed in' >&2; exit 6", r"`vault` failed \(6\): not signed in"),
        ("true", "`vault` printed nothing"),
        ("yes", "`vault` failed"),
    ],
)
async def test_a_program_that_fails_is_explained_without_its_output(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        await CommandKeySource(program(tmp_path, text), {"PATH": os.defpath, "SECRET": SECRET}).read_key()
    assert SECRET not in str(caught.value)


async def test_a_program_that_hangs_is_ended_with_its_children(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    text = program(tmp_path, f"sleep 600 & echo $! > {pid}; wait")
    with pytest.raises(ConfigError, match="did not end within 2 s"):
        async with asyncio.timeout(60):
            await CommandKeySource(text, {"PATH": os.defpath}, patience=2).read_key()
    status = Path(f"/proc/{pid.read_text().strip()}/status")
    assert not status.exists() or "State:\tZ" in status.read_text()


async def test_a_program_that_leaves_a_daemon_gives_its_key_at_once_and_the_daemon_ends(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    text = program(tmp_path, f"sleep 600 & echo $! > {pid}; echo {SECRET}")
    async with asyncio.timeout(60):
        assert await CommandKeySource(text, {"PATH": os.defpath}, patience=600).read_key() == SECRET
        status = Path(f"/proc/{pid.read_text().strip()}/status")
        while status.exists() and "State:\tZ" not in status.read_text():  # noqa: ASYNC110 - of another process
            await asyncio.sleep(0.01)


async def test_no_shell_reads_the_command(tmp_path: Path) -> None:
    assert await CommandKeySource("printf %s $HOME;a", {"PATH": os.defpath, "HOME": "x"}).read_key() == "$HOME;a"
    for wrong in ("", "'open"):
        with pytest.raises(ConfigError):
            CommandKeySource(wrong, {})


async def test_a_variable_that_is_not_set_is_named() -> None:
    with pytest.raises(ConfigError, match="MY_KEY is not set"):
        await VariableKeySource("MY_KEY", dict).read_key()


def test_variables_in_their_numbered_and_listed_forms() -> None:
    environ = {"K": "a", "K_1": "b", "K_2": "c", "K_4": "never", "KS": "d, e;a,", "L": "f"}
    assert list(list_variable_keys(("K", "L"), environ)) == [
        ("K", "a"),
        ("K_1", "b"),
        ("K_2", "c"),
        ("KS#1", "d"),
        ("KS#2", "e"),
        ("L", "f"),
    ]
    assert list(list_variable_keys(("K",), {"K_2": "b", "K": "a,b"})) == [("K", "a,b"), ("K_2", "b")]
    assert list(list_variable_keys(("K",), {})) == []


_READ = """
import asyncio
from hermes.core.errors import ConfigError
from hermes.llm.key_sources import KeyringKeySource
try:
    print(asyncio.run(KeyringKeySource("svc", "me").read_key()))
except ConfigError as error:
    print(error)
"""
_PACKAGE = "def get_password(service, user):\n    return (service + user) if user == 'me' else None\n"


async def test_the_keyring_is_read_through_its_package_and_missed_by_name(tmp_path: Path) -> None:
    (tmp_path / "keyring").mkdir()
    (tmp_path / "keyring" / "__init__.py").write_text(_PACKAGE)
    (tmp_path / "keyring" / "errors.py").write_text("class KeyringError(Exception): pass\n")
    with TempHome() as home:
        home.more["PYTHONPATH"] = os.pathsep.join([str(tmp_path), home.environ["PYTHONPATH"]])
        done = await home.run(sys.executable, "-c", _READ)
        assert (done.code, done.stdout.strip()) == (0, "svcme")
        (tmp_path / "keyring" / "__init__.py").write_text("raise ImportError")
        done = await home.run(sys.executable, "-c", _READ)
    assert "pip install 'hermes-anew[keyring]'" in done.stdout
    assert KeyringKeySource("svc", "me").description == "keyring"


_HANGS = _READ.replace('"me")', '"me", patience=0.2)')


async def test_a_keyring_that_hangs_holds_up_neither_the_caller_nor_the_exit(tmp_path: Path) -> None:
    (tmp_path / "keyring").mkdir()
    (tmp_path / "keyring" / "__init__.py").write_text("import time\ndef get_password(*_):\n    time.sleep(600)\n")
    (tmp_path / "keyring" / "errors.py").write_text("class KeyringError(Exception): pass\n")
    with TempHome() as home:
        home.more["PYTHONPATH"] = os.pathsep.join([str(tmp_path), home.environ["PYTHONPATH"]])
        done = await home.run(sys.executable, "-c", _HANGS)
    assert (done.code, done.stdout.strip()) == (0, "The keyring did not answer within 0.2 s. Is it locked?")
