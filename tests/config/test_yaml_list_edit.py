"""Adding to a list of a person's settings file leaves everything else in it as it was."""

from pathlib import Path

import pytest
import yaml

from hermes.config.yaml_edit import add_to_list
from hermes.core.errors import ConfigError

KEY = "command_allowlist"
FILES = {
    "no file": None,
    "empty": "",
    "without the list": "# mine\nmodel: x  # not the list\n",
    "no newline at the end": "model: x",
    "an empty list": f"model: x\n{KEY}: []\nagent:\n  max_turns: 3\n",
    "nothing": f"{KEY}:\nmodel: x\n",
    "block": f"{KEY}:\n  - git status  # fine\n  # and this\n  - 'make *'\n\n# about the model\nmodel: x\n",
    "not indented": f"{KEY}:\n- a\n- b\nmodel: x\n",
    "on one line": f"model: x\n{KEY}: ['a', \"b\"]  # two\nagent: {{max_turns: 3}}\n",
    "over several lines": f"{KEY}:\n  - a\n    and more\n  - b\nmodel: x\n",
    "json": f'{{"model": "x", "{KEY}": ["a"]}}',
    "json without the list": '{\n  "model": "x"\n}\n',
    "braces": f"# mine\n{{model: x, {KEY}: [a], agent: {{max_turns: 3}}}}  # end\n",
    "windows": f"model: x\r\n{KEY}:\r\n  - a\r\nagent:\r\n  max_turns: 3\r\n",
}
ITEMS = ["rm -rf build", "echo 'a: b' # c", 'say "x"', "天气 *", "- x", "*", "a\\b"]


@pytest.mark.parametrize("name", FILES)
def test_the_list_grows_and_nothing_else_changes(name: str, tmp_path: Path) -> None:
    file, text = tmp_path / "config.yaml", FILES[name]
    if text is not None:
        file.write_bytes(text.encode())
    before = yaml.safe_load(text or "") or {}
    add_to_list(file, KEY, ITEMS)
    after = yaml.safe_load(file.read_text("utf-8"))
    assert after == {**before, KEY: [*(before.get(KEY) or []), *ITEMS]}
    comments = [line.partition("#")[2] for line in (text or "").splitlines() if "#" in line and KEY not in line]
    assert all(comment.strip() in file.read_text("utf-8") for comment in comments)
    assert file.stat().st_mode & 0o077 == 0
    once = file.read_bytes()
    add_to_list(file, KEY, ITEMS)
    assert file.read_bytes() == once


@pytest.mark.parametrize("text", [f"{KEY}: all\n", "[1, 2]\n", "a: [\n", f"{KEY}: &x [a]\nother: *x\n"])
def test_what_cannot_be_changed_by_itself_is_said_and_left(text: str, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(text)
    try:
        add_to_list(file, KEY, ["x"])
    except ConfigError:
        assert file.read_text() == text
    else:
        assert yaml.safe_load(file.read_text()) == {**yaml.safe_load(text), KEY: ["a", "x"]}
