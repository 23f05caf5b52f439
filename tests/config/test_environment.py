"""A line of `.env` is put in or changed; everything else stays, and the file is its owner's alone."""

import secrets
from pathlib import Path

import pytest

from hermes.config.environment import parse_dotenv, set_variables
from hermes.core.errors import ConfigError

FILES = {
    "no file": None,
    "empty": "",
    "others": "# mine\nexport A=1  # one\nB='two words'\n",
    "it is there": "A=1\nMY_KEY=old\nB=2\n",
    "it is there twice": "MY_KEY=old\nMY_KEY=older\n",
    "exported": "export MY_KEY='old'\n",
    "no newline at the end": "A=1",
    "windows": "A=1\r\nMY_KEY=old\r\nB=2\r\n",
    "commented out": "#MY_KEY=old\nOTHER_MY_KEY=x\n",
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("value", ["plain", "with space", "a#b", "a # b", "it's", 'say "x"', "sk-" + "x" * 60])
def test_one_variable_changes(name: str, value: str, tmp_path: Path) -> None:
    file, text = tmp_path / ".env", FILES[name]
    if text is not None:
        file.write_bytes(text.encode())
    before = parse_dotenv(text or "")
    set_variables(file, {"MY_KEY": value})
    after = file.read_bytes().decode()
    assert parse_dotenv(after) == {**before, "MY_KEY": value}
    kept = [line for line in (text or "").splitlines() if "MY_KEY=" not in line or "#" in line or "OTHER" in line]
    assert all(line in after.splitlines() for line in kept)
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("value", ["two\nlines", "a\rb", 'both " and \'" x'])
def test_what_cannot_stand_there_is_refused_without_being_shown(value: str, tmp_path: Path) -> None:
    file = tmp_path / ".env"
    file.write_text("A=1\n")
    try:
        set_variables(file, {"MY_KEY": value})
    except ConfigError as error:
        assert value not in str(error)
        assert file.read_text() == "A=1\n"
    else:
        assert parse_dotenv(file.read_text())["MY_KEY"] == value


def test_no_link_is_followed(tmp_path: Path) -> None:
    key = secrets.token_hex(20)
    (tmp_path / "elsewhere").write_text("A=1\n")
    (tmp_path / ".env").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match="symbolic link") as caught:
        set_variables(tmp_path / ".env", {"MY_KEY": key})
    assert key not in str(caught.value)
    assert (tmp_path / "elsewhere").read_text() == "A=1\n"
