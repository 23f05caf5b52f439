"""One key of a person's settings file is changed; the rest of it, comments and order too, stays as it is."""

from pathlib import Path

import pytest
import yaml

from hermes.config.yaml_edit import find_line, set_values, unset_value
from hermes.core.errors import ConfigError

FILES = {
    "no file": None,
    "empty": "",
    "only a comment": "# mine\n",
    "short form": "model: mock-model  # the first\nagent:\n  max_turns: 3\n",
    "a section": "model:  # who answers\n  default: a\n  # the port\n  base_url: http://h:1/v1\n\n# end\nx: 1\n",
    "one line": "model: {default: a, base_url: 'http://h/v1'}  # who\nagent: {max_turns: 3}\n",
    "nothing in it": "model:\nagent:\n  max_turns: 3\n",
    "null": "model: null\nagent:\n  max_turns: 3\n",
    "no newline at the end": "agent:\n  max_turns: 3",
    "windows": "# mine\r\nmodel:\r\n  default: a  # this\r\nagent:\r\n  max_turns: 3\r\n",
    "deeper": "model:\n    default: a\n    api_mode: chat_completions\n\nagent:\n    max_turns: 3 # three\n",
    "block text": "agent:\n  system_prompt: |\n    one\n    two\n  max_turns: 3\nmodel:\n  default: >-\n    a\n    b\n",
    "twice": "agent:\n  max_turns: 3\nagent:\n  max_turns: 4\n",
    "json": '{"model": {"default": "a"}, "agent": {"max_turns": 3}}',
    "json of several lines": '{\n  "model": {\n    "default": "a"\n  },\n  "agent": {}\n}\n',
    "braces": "# mine\n{model: a, agent: {max_turns: 3}, x: 1}  # end\n",
    "empty braces": "{}\n",
    "chinese": "# 我的设置\nmodel:\n  default: 模型 # 首选\n",
}
CHANGES: list[tuple[tuple[str, ...], object]] = [
    (("model", "default"), "b: c # d"),
    (("model", "provider"), "custom"),
    (("model", "context_length"), 4096),
    (("agent", "max_turns"), 7),
    (("agent", "system_prompt"), "two\nlines"),
    (("terminal", "sandbox", "network"), "off"),
    (("toolsets",), ["file", "天气"]),
    (("compression", "enabled"), False),
]


def meant(document: object, path: tuple[str, ...], value: object) -> dict[str, object]:
    whole: dict[str, object] = dict(document) if isinstance(document, dict) else {}
    if len(path) == 1:
        return {**whole, path[0]: value}
    below = whole.get(path[0])
    if path[0] == "model" and isinstance(below, str):
        below = {"default": below}
    return {**whole, path[0]: meant(below, path[1:], value)}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(("path", "value"), CHANGES, ids=lambda one: ".".join(one) if isinstance(one, tuple) else "")
def test_one_key_is_set_and_nothing_else_changes(
    name: str, path: tuple[str, ...], value: object, tmp_path: Path
) -> None:
    file, text = tmp_path / "config.yaml", FILES[name]
    if text is not None:
        file.write_bytes(text.encode())
    before = yaml.safe_load(text or "") or {}
    set_values(file, {path: value})
    raw = file.read_bytes().decode()
    assert yaml.safe_load(raw) == meant(before, path, value)
    for line in (text or "").splitlines():
        mark, _, comment = line.partition("#")
        assert comment in raw, (mark, raw)
    assert ("\r\n" in raw) == ("\r\n" in (text or ""))
    assert raw.count("\n") == raw.count("\r\n") or "\r" not in raw
    assert file.stat().st_mode & 0o077 == 0
    once = file.read_bytes()
    set_values(file, {path: value})
    assert file.read_bytes() == once
    if name == "twice" and path[0] == "agent":
        return  # the first of the two would stand again
    unset_value(file, path)
    left = yaml.safe_load(file.read_text("utf-8")) or {}
    assert path[-1] not in (left.get(path[0]) or {}) if len(path) == 2 else path[0] not in left
    assert all(
        line.partition("#")[2] in file.read_text("utf-8") for line in (text or "").splitlines() if line[:1] == "#"
    )


def test_a_list_of_lines_stays_one(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("a: 1\ntoolsets: # mine\n  - file\n  - web\n# behind\nb: 2\n")
    set_values(file, {("toolsets",): ["todo", "x: y"]})
    assert file.read_text() == 'a: 1\ntoolsets: # mine\n  - todo\n  - "x: y"\n# behind\nb: 2\n'


def test_several_keys_go_in_at_once(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    set_values(file, {("model", "default"): "m/x:free", ("model", "provider"): "ollama", ("a",): "yes"})
    assert file.read_text() == 'model:\n  default: m/x:free\n  provider: ollama\na: "yes"\n'


def test_what_would_be_empty_goes_with_it(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("a: 1\nterminal:\n  sandbox:\n    network: on\nb: 2\n")
    assert unset_value(file, ("terminal", "sandbox", "network"))
    assert file.read_text() == "a: 1\nb: 2\n"
    assert not unset_value(file, ("terminal", "sandbox"))


@pytest.mark.parametrize(
    "text", ["[1, 2]\n", "a: [\n", "model: &x {default: a}\nother: *x\n", "base: &b {a: 1}\nmodel:\n  <<: *b\n...\n"]
)
def test_what_cannot_be_changed_by_itself_is_said_and_left(text: str, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError):
        set_values(file, {("toolsets",): ["x"], ("model", "default"): "b"})
    assert file.read_text() == text


def test_the_line_of_a_key_is_known() -> None:
    text = "# one\nmodel:\n  default: a\n  provider: b\nagent: {max_turns: 1}\n"
    assert [find_line(text, path) for path in (["model"], ["model", "provider"], ["agent", "max_turns"])] == [2, 4, 5]
    assert find_line(text, ["model", "nothing"]) == 2
    assert find_line(text, ["nothing"]) == 0
