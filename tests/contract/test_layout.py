"""Tests stand where their subject stands: `tests/<folder>/test_<module>.py`. Subjects across modules are listed."""

from pathlib import Path

from tests.case_tables import each_case

TESTS = Path(__file__).parent.parent
PACKAGE = TESTS.parent / "hermes"
CAMPAIGNS = {"attack", "contract", "corpus", "e2e", "ends", "torture", "vendors"}
"""Folders whose tests are about the whole program, and what tests use."""
SUBJECTS = {
    "cli": {"chinese", "display", "hostile_text", "input_line"},
    "config": {"yaml_list_edit"},
    "cron": {"accounting", "several_processes"},
    "gateway": {"bad_input", "family", "shared_session"},
    "hooks": {"foreign_scripts"},
    "llm": {"cache_marks", "error_matrix", "request_size"},
    "providers": {"connection_limit"},
    "runtime": {"archives", "compacted_lookup", "fallback", "resume"},
    "safety": {"asked_commands_more", "corpus", "evasions"},
    "sessions": {"branches", "event_loop", "prompt_caching", "stable_prefix"},
    "testing": {"faults", "models", "official_sdks"},
}
"""Subjects of a room that are no module of it."""
FILES = sorted(
    path.relative_to(TESTS)
    for path in TESTS.rglob("test_*.py")
    if path.relative_to(TESTS).parts[0] not in CAMPAIGNS
)  # fmt: skip


def _room_names(folder: Path) -> set[str]:
    """Return the names of a room's modules and folders."""
    found = [*folder.rglob("*.py"), *(path for path in folder.rglob("*") if path.is_dir())]
    return {folder.name, *(path.stem for path in found)}


@each_case("file", FILES)
def test_a_test_stands_in_the_room_of_its_subject(file: Path) -> None:
    room = PACKAGE / file.parent
    assert room.is_dir(), f"hermes/ has no folder {file.parent}"
    subject = file.stem.removeprefix("test_")
    names = {name.removesuffix("s") for name in _room_names(room)}
    is_mirror = any(subject.startswith(name) or subject.endswith((f"_{name}", f"_{name}s")) for name in names)
    assert is_mirror or subject in SUBJECTS.get(file.parent.parts[0], set()), f"{room} has no module {subject}"


def test_every_listed_subject_has_a_test() -> None:
    missing = [
        one for room, all_of in SUBJECTS.items() for one in all_of if not list(TESTS.glob(f"{room}/**/test_{one}.py"))
    ]
    assert missing == []
