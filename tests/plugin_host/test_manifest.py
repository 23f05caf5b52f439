"""The manifest of a folder plug-in, and its folder: what is taken, and what is refused by name."""

import os
from pathlib import Path

import pytest

from hermes.config.plugin_consents import PluginConsent, PluginConsents
from hermes.config.trusted_folders import TrustFile, set_trust
from hermes.core.errors import ConfigError
from hermes.hooks.events import HookEvent
from hermes.plugin_host.description import describe_manifest
from hermes.plugin_host.folders import MAX_FILES, PluginFolderState, list_plugin_folders, read_plugin_folder
from hermes.plugin_host.manifest import WorkspaceAccess, parse_manifest
from hermes.plugin_host.scaffold import write_example_plugin

PLAIN = 'name: notes\nversion: "1.0"\ndescription: Notes.\n'
TOOL = "tools:\n  - {name: find, description: Finds., "

REFUSED = {
    "no mapping": ("- one", "no mapping"),
    "no yaml": ("name: [", "expected"),
    "not utf-8": (b"name: \xff", "utf-8"),
    "empty": ("", "no mapping"),
    "no version": ("name: notes\ndescription: x", "missing required field `version`"),
    "a version that is a number": ("name: notes\nversion: 1.0\ndescription: x", "quotation marks"),
    "a strange version": (PLAIN.replace("1.0", "1 0"), "$.version"),
    "an unknown key": (PLAIN + "autostart: true", "unknown field `autostart`"),
    "an unknown capability": (PLAIN + "capabilities: {root: true}", "unknown field `root`"),
    "an unknown key of a tool": (PLAIN + TOOL + "safe: true}", "unknown field `safe`"),
    "a name with a slash": (PLAIN.replace("notes", "../notes"), "$.name"),
    "a name in capitals": (PLAIN.replace("notes", "Notes"), "$.name"),
    "a long name": (PLAIN.replace("notes", "n" * 25), "$.name"),
    "a name with two dashes": (PLAIN.replace("notes", "a--b"), "$.name"),
    "an unknown hook": (PLAIN + "hooks: [pre_everything]", "Invalid enum value 'pre_everything'"),
    "a hook twice": (PLAIN + "hooks: [pre_tool_call, pre_tool_call]", "`hooks` names something twice"),
    "a key twice": (PLAIN + 'version: "2.0"', "`version` is there twice"),
    "an alias": (PLAIN + "run: &a [x]\nhosts: *a", "aliases"),
    "a tag": (PLAIN + "run: !!python/object:os.system []", "could not determine a constructor"),
    "no words to run": (PLAIN + "run: []", "$.run"),
    "run as a text": (PLAIN + "run: python main.py", "$.run"),
    "a tool twice": (PLAIN + TOOL + "}\n  - {name: find, description: Finds.}", "`tools` names something twice"),
    "a tool with two underscores": (PLAIN + "tools: [{name: a__b, description: x}]", "$.tools[0].name"),
    "a schema of a list": (PLAIN + TOOL + "parameters: {type: array}}", "no schema of an object"),
    "required that is no list": (PLAIN + TOOL + "parameters: {type: object, required: x}}", "`required` of find"),
    "a deep schema": (
        PLAIN + TOOL + "parameters: {type: object, x: " + "[" * 40 + "]" * 40 + "}}",
        "nested too deeply",
    ),
    "a very deep manifest": (PLAIN + "run: " + "[" * 5_000 + "]" * 5_000, "nested too deeply"),
    "a huge schema": (PLAIN + TOOL + f"parameters: {{type: object, x: {'y' * 17_000}}}}}", "more than 16,000 bytes"),
    "a tool without a time": (PLAIN + TOOL + "timeout: 0}", "$.tools[0].timeout"),
    "a tool with too much time": (PLAIN + TOOL + "timeout: 6000}", "$.tools[0].timeout"),
    "a read_only that is a word": (PLAIN + TOOL + 'read_only: "yes"}', "$.tools[0].read_only"),
    "an unseen character": (PLAIN.replace("Notes.", '"Notes\\u202e."'), "cannot be seen"),
    "an unseen character of a tool": (PLAIN + 'tools: [{name: a, description: "x\\u200bzz\\u200b"}]', "cannot be seen"),
    "a terminal's control": (PLAIN.replace("Notes.", '"N\\x1b[2J"'), "cannot be seen"),
    "too much memory": (PLAIN + "capabilities: {memory: 9999}", "$.capabilities.memory"),
    "too many processes": (PLAIN + "capabilities: {processes: 1000}", "$.capabilities.processes"),
    "an unknown access": (PLAIN + "capabilities: {workspace: all}", "Invalid enum value 'all'"),
    "a URL as a host": (PLAIN + "hosts: [https://example.com]", "is no host"),
    "every host": (PLAIN + 'hosts: ["*"]', "is no host"),
    "a host with a path": (PLAIN + "hosts: [example.com/x]", "is no host"),
    "a variable that loads code": (PLAIN + "env: [LD_PRELOAD]", "LD_PRELOAD is not for plug-ins"),
    "a variable of Python": (PLAIN + "env: [PYTHONPATH]", "PYTHONPATH is not for plug-ins"),
    "a variable of Hermes": (PLAIN + "env: [HERMES_HOME]", "HERMES_HOME is not for plug-ins"),
    "a proxy": (PLAIN + "env: [https_proxy]", "https_proxy is not for plug-ins"),
    "a variable with a sign": (PLAIN + 'env: ["A=B"]', "$.env[0]"),
    "too much": (PLAIN + "#" * 70_000, "more than 64 kB"),
}


@pytest.mark.parametrize("case", sorted(REFUSED))
def test_a_manifest_is_refused_by_name(case: str) -> None:
    text, said = REFUSED[case]
    with pytest.raises(ConfigError) as error:
        parse_manifest(text if isinstance(text, bytes) else text.encode())
    assert said in error.value.message and "\n" not in error.value.message and len(error.value.message) < 400


def test_a_whole_manifest_is_read() -> None:
    found = parse_manifest(
        (
            PLAIN
            + "run: [node, main.js]\nhooks: [pre_tool_call, 'gateway:startup']\n"
            + TOOL
            + "parameters: {type: object, required: [text]}, read_only: true, timeout: 5}\n"
            + "commands: [{name: list, about: Lists notes., usage: '[word]'}]\n"
            + "capabilities: {workspace: read, memory: 64, processes: 2}\n"
            + "hosts: [api.example.com, '*.example.org:8443']\nenv: [NOTES_TOKEN, TZ]\n"
        ).encode()
    )
    assert found.hooks == (HookEvent.PRE_TOOL_CALL, HookEvent.GATEWAY_STARTUP) and found.tools[0].required == ("text",)
    assert found.capabilities.workspace is WorkspaceAccess.READ and found.secret_variables == ("NOTES_TOKEN",)


def test_a_person_is_told_what_a_plug_in_may_do() -> None:
    plain = describe_manifest(parse_manifest(PLAIN.encode()))
    assert len(plain) == 1 and "256 MB" in plain[0]
    more = "hosts: [a.example, b.example]\nenv: [NOTES_TOKEN, TZ]\nhooks: [post_tool_call]\n"
    said = " ".join(describe_manifest(parse_manifest((PLAIN + more + "capabilities: {workspace: write}").encode())))
    for one in ("a.example, b.example", "may leave", "Of these, NOTES_TOKEN", "may write", "post_tool_call"):
        assert one in said


def list_rows(home: Path, workspace: Path) -> dict[str, PluginFolderState]:
    rows = list_plugin_folders(
        home, str(workspace), TrustFile(home / "trust.json"), PluginConsents(home / "plugins.json")
    )
    return {row.name: row.state for row in rows}


def enable(home: Path, folder: Path, *, is_project: bool = False) -> None:
    found = read_plugin_folder(folder, is_project=is_project)
    PluginConsents(home / "plugins.json").enable(found.key, PluginConsent(found.manifest.version, found.digest))


def test_a_plug_in_is_off_until_enabled_and_again_when_it_changed(tmp_path: Path) -> None:
    folder = write_example_plugin(tmp_path / "plugins", "notes")
    assert list_rows(tmp_path, tmp_path) == {"notes": PluginFolderState.OFF}
    enable(tmp_path, folder)
    assert list_rows(tmp_path, tmp_path) == {"notes": PluginFolderState.ENABLED}
    changes = {
        "another file": lambda: (folder / "more.py").write_text(""),
        "what a file holds": lambda: (folder / "main.py").write_text("x"),
        "whether a file can be run": lambda: (folder / "main.py").chmod(0o755),
        "a name": lambda: (folder / "main.py").rename(folder / "other.py"),
    }
    for change in changes.values():
        change()
        assert list_rows(tmp_path, tmp_path) == {"notes": PluginFolderState.CHANGED}
        enable(tmp_path, folder)
        assert list_rows(tmp_path, tmp_path) == {"notes": PluginFolderState.ENABLED}


def test_files_cannot_be_moved_into_one_another_without_a_change_of_the_digest(tmp_path: Path) -> None:
    folder = write_example_plugin(tmp_path, "notes")
    digests = set()
    for one, other in ((b"ab", b"c"), (b"a", b"bc"), (b"", b"abc")):
        (folder / "x").write_bytes(one)
        (folder / "y").write_bytes(other)
        digests.add(read_plugin_folder(folder).digest)
    assert len(digests) == 3


def test_of_an_untrusted_project_nothing_is_read(tmp_path: Path) -> None:
    project = tmp_path / "project"
    folder = write_example_plugin(project / ".hermes/plugins", "theirs")
    (folder / "plugin.yaml").write_text("broken: [")
    assert list_rows(tmp_path, project) == {"theirs": PluginFolderState.UNTRUSTED}
    set_trust(tmp_path / "trust.json", str(project), trusted=True)
    assert list_rows(tmp_path, project) == {"theirs": PluginFolderState.INVALID}


def test_a_project_s_plug_in_is_enabled_for_its_place_alone(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for project in (one, other):
        write_example_plugin(project / ".hermes/plugins", "theirs")
        set_trust(tmp_path / "trust.json", str(project), trusted=True)
    enable(tmp_path, one / ".hermes/plugins/theirs", is_project=True)
    assert list_rows(tmp_path, one) == {"theirs": PluginFolderState.ENABLED}
    assert list_rows(tmp_path, other) == {"theirs": PluginFolderState.OFF}


def test_the_home_s_plug_in_comes_before_a_project_s_of_its_name(tmp_path: Path) -> None:
    project = tmp_path / "project"
    set_trust(tmp_path / "trust.json", str(tmp_path), trusted=True)
    write_example_plugin(project / ".hermes/plugins", "notes")
    write_example_plugin(tmp_path / "plugins", "notes")
    rows = list_plugin_folders(
        tmp_path, str(project), TrustFile(tmp_path / "trust.json"), PluginConsents(tmp_path / "plugins.json")
    )
    assert [row.state for row in rows] == [PluginFolderState.OFF, PluginFolderState.INVALID]


@pytest.mark.parametrize("kind", ["link to a file", "link to a folder", "pipe", "too many", "too large", "other name"])
def test_a_folder_is_refused_by_name(tmp_path: Path, kind: str) -> None:
    folder = write_example_plugin(tmp_path / "plugins", "notes")
    said = "is a link or no plain file"
    if kind == "link to a file":
        (folder / "keys").symlink_to("/etc/shadow")
    elif kind == "link to a folder":
        (folder / "lib").symlink_to(tmp_path)
    elif kind == "pipe":
        os.mkfifo(folder / "pipe")
    elif kind == "too many":
        for number in range(MAX_FILES):
            (folder / f"f{number}").touch()
        said = f"more than {MAX_FILES} files"
    elif kind == "too large":
        with open(folder / "big", "wb") as file:
            file.truncate(30 << 20)
        said = "more than 20 MB"
    else:
        folder = folder.rename(tmp_path / "plugins" / "renamed")
        said = "its folder has another name"
    with pytest.raises(ConfigError) as error:
        read_plugin_folder(folder)
    assert said in error.value.message
    assert list(list_rows(tmp_path, tmp_path).values()) == [PluginFolderState.INVALID]


def test_a_plug_in_folder_that_is_a_link_is_not_listed(tmp_path: Path) -> None:
    write_example_plugin(tmp_path / "elsewhere", "notes")
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins/notes").symlink_to(tmp_path / "elsewhere/notes")
    assert list_rows(tmp_path, tmp_path) == {}
