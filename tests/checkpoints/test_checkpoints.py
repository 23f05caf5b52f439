"""The parts that checkpoints are made of: contents, listings, what is left out, and how much is kept."""

import os
import time
from pathlib import Path

import pytest
from msgspec import structs

from hermes.checkpoints.coverage import find_repository, find_uncovered
from hermes.checkpoints.object_store import ObjectStore, digest_content
from hermes.checkpoints.path_states import StateReader
from hermes.checkpoints.recorder import CheckpointDeps, CheckpointRecorder
from hermes.checkpoints.restore import (
    PathHistory,
    RestoreOutcome,
    _build_temporary_name,
    plan_restore,
    restore_files,
)
from hermes.checkpoints.retention import CheckpointRetention, prune_folder
from hermes.checkpoints.scan import (
    FolderListing,
    FolderScan,
    IgnoreRules,
    ScanLimits,
    decode_listing,
    encode_listing,
    find_differences,
    parse_rules,
)
from hermes.core.checkpoints import FileChange, FileLoss, FileState, Kind, NewCheckpoint
from hermes.safety.paths import Places
from hermes.store.records import NewSession
from hermes.store.store import Store
from hermes.testing.clock import ManualClock
from tests.cpu_cost import count_cpu_units


def places(folder: Path) -> Places:
    return Places(home=str(folder / "home"), hermes=str(folder / "home/.hermes"), workspace=str(folder / "w"))


def look(folder: Path, known: FolderListing | None = None, bounds: ScanLimits | None = None) -> FolderListing:
    looker = StateReader(places(folder), 10_000_000, ObjectStore(folder / "store"))
    return FolderScan(str(folder / "w"), places(folder), looker, bounds or ScanLimits()).scan_folder(known)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "w").mkdir()
    return tmp_path / "w"


def names(listing: FolderListing) -> set[str]:
    return {os.fsdecode(path) for path in listing.items}


def test_a_content_is_kept_once_and_a_damaged_one_is_none(tmp_path: Path) -> None:
    objects = ObjectStore(tmp_path)
    digest = objects.put(b"x" * 1000)
    assert digest == objects.put(b"x" * 1000) == digest_content(b"x" * 1000)
    (file,) = (one for one in (tmp_path / "objects").glob("*/*"))
    assert file.stat().st_mode & 0o777 == 0o600 and file.stat().st_size < 100
    assert objects.get(digest) == b"x" * 1000
    file.write_bytes(b"")
    assert objects.get(digest) is None and objects.get("0" * 40) is None


def test_nothing_is_collected_while_somebody_puts(tmp_path: Path) -> None:
    objects, other = ObjectStore(tmp_path), ObjectStore(tmp_path)
    kept, gone = objects.put(b"kept"), objects.put(b"gone")
    with other.block_collection(), objects.try_exclusive() as alone:
        assert not alone
    with objects.try_exclusive() as alone:
        assert alone and objects.collect({kept}) > 0
    assert objects.get(kept) == b"kept" and objects.get(gone) is None


@pytest.mark.parametrize(
    ("rules", "path", "folder", "out"),
    [
        ("*.pyc", "a/b.pyc", False, True),
        ("/build", "build", True, True),
        ("/build", "a/build", True, False),
        ("dist/", "dist", False, False),
        ("dist/", "a/dist", True, True),
        ("*.log\n!keep.log", "keep.log", False, False),
        ("a/**/b", "a/x/y/b", False, True),
        ("**/deep/z", "p/q/deep/z", False, True),
        ("logs/**", "logs/a/b", False, True),
        ("doc/*.txt", "doc/a/b.txt", False, False),
        ("[ab]?c", "axc", False, True),
        ("[!ab]c", "ac", False, False),
        ("\\!bang", "!bang", False, True),
        ("# note", "# note", False, False),
        ("天*", "天气.md", False, True),
        ("[", "x", False, False),
    ],
)
def test_patterns_are_read_as_git_reads_them(rules: str, path: str, *, folder: bool, out: bool) -> None:
    ignored = IgnoreRules().with_rules("", parse_rules(rules))
    assert ignored.is_ignored(path, path.rpartition("/")[2], folder=folder) is out


def test_a_hostile_pattern_costs_no_time() -> None:
    ignored = IgnoreRules().with_rules("", parse_rules("x" + "*a" * 40 + "b\n" + "**/" * 40 + "z"))
    name = "x" + "a" * 250
    assert not ignored.is_ignored(name, name, folder=False)
    # 0.014 units; a pattern that tries every way to split the name would take more years than there were.
    assert count_cpu_units(lambda: ignored.is_ignored(name, name, folder=False)) < 0.1


def test_a_listing_holds_what_is_there_and_follows_nothing(work: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("theirs")
    (work / "link").symlink_to(tmp_path / "outside")
    (work / "d").mkdir()
    (work / "d" / "名").write_bytes(b"x")
    os.mkfifo(work / "pipe")
    bad = os.fsencode(work) + b"/\xff\xfe"
    Path(os.fsdecode(bad)).write_text("y")
    listing = look(tmp_path)
    assert names(listing) == {"link", "d", "d/名", os.fsdecode(b"\xff\xfe")}
    assert listing.items[b"link"].state.kind is Kind.LINK
    assert decode_listing(encode_listing(listing)) == listing and decode_listing(b"no") is None


def test_unchanged_files_are_not_read_again(work: Path, tmp_path: Path) -> None:
    for name in "ab":
        (work / name).write_text(name)
        os.utime(work / name, (1_000, 1_000))
    known = look(tmp_path)
    later = FolderListing(known.items, time.time_ns() + 10**9, known.whole)
    (work / "a").write_text("c")
    os.utime(work / "a", (1_000, 1_000))  # the size and the time that it had; only the kernel's own stamp differs
    again = look(tmp_path, later)
    assert again.items[b"b"] is later.items[b"b"]
    assert again.items[b"a"].state != known.items[b"a"].state


@pytest.mark.slow
def test_a_folder_of_twenty_thousand_files_takes_bounded_time(work: Path, tmp_path: Path) -> None:
    for number in range(200):
        folder = work / f"d{number}"
        folder.mkdir()
        for one in range(100):
            (folder / f"f{one}").write_bytes(b"%d-%d\n" % (number, one))
    ended = look(tmp_path, None, ScanLimits(seconds=0))
    assert not ended.whole and len(ended.items) < 1_000  # the clock is looked at all the time
    patient = ScanLimits(seconds=600)
    listing = look(tmp_path, None, patient)
    assert len(listing.items) == 20_200 and listing.whole
    later = FolderListing(listing.items, time.time_ns() + 10**9, listing.whole)
    again = look(tmp_path, later, patient)
    assert len(again.items) == 20_200
    assert all(again.items[name] is item for name, item in later.items.items() if item.state.kind is Kind.FILE)
    cut = look(tmp_path, later, ScanLimits(entries=500, seconds=600))
    assert not cut.whole and len(cut.items) == 500
    small = look(tmp_path, None, ScanLimits(total_bytes=100, seconds=600))
    assert small.whole and small.scope.uncopied > 19_000


IGNORING = ScanLimits(ignored_entries=100, ignored_bytes=1_000)


@pytest.fixture
def ignoring(work: Path) -> Path:
    """A repository that ignores data, build output and a file of keys."""
    for name in (".git/HEAD", "data/a", "data/deep/b", "data/__pycache__/c", "build/d", "src/e", ".env", "x.o"):
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text(f"text of {name}")
    (work / ".gitignore").write_text("data/\nbuild/\n.env\n*.o\n")
    return work


def test_what_git_ignores_is_listed_when_asked_for_unless_it_is_made_again(ignoring: Path, tmp_path: Path) -> None:
    plain = {".gitignore", "src", "src/e"}
    assert names(look(tmp_path)) == plain
    listing = look(tmp_path, None, IGNORING)
    assert names(listing) == plain | {".env", "data", "data/a", "data/deep", "data/deep/b"}
    assert listing.whole and not listing.scope.cut and set(listing.scope.ignored) == {b".env", b"data"}
    later = listing.items | {}, time.time_ns() + 10**9
    again = look(tmp_path, FolderListing(*later), IGNORING)
    assert again.items[b"data/deep/b"] is later[0][b"data/deep/b"]
    assert decode_listing(encode_listing(listing)) == listing


def test_limits_of_what_is_ignored_end_only_that(ignoring: Path, tmp_path: Path) -> None:
    for number in range(50):
        (ignoring / f"data/deep/{number}").write_text("x" * 10)
    few = look(tmp_path, None, ScanLimits(ignored_entries=20, ignored_bytes=1_000))
    assert few.whole and few.scope.cut == b"data" and b"data" in (few.scope.left_out or ()) and b".env" in few.items
    assert len(few.items) == 3 + 20 - 1  # what is passed over counts, too
    small = look(tmp_path, None, ScanLimits(ignored_entries=100, ignored_bytes=100))
    assert small.whole and small.scope.cut.startswith(b"data/deep/") and small.scope.uncopied == 0
    assert small.items[small.scope.cut].state.kind is Kind.LARGE and small.items[b"src/e"].state.kind is Kind.FILE


def test_absence_is_known_only_where_everything_was_looked_at(ignoring: Path, tmp_path: Path) -> None:
    before = look(tmp_path)
    absent = before.knows_absence()
    assert absent(b"src/new") and not absent(b"data/new") and not absent(b"build/new") and not absent(b"x.o")
    assert not FolderListing(before.items).knows_absence()(b"src/new")  # as an earlier version stored it
    (ignoring / "src/new").write_text("n")
    after = look(tmp_path, before, IGNORING)
    assert set(find_differences(before, after, lambda _: FileState(Kind.OTHER))) == {b"src/new"}


def test_a_repository_in_build_output_is_found_within_bounds(work: Path) -> None:
    tree = work / "venv"
    for name in ("lib/a", "lib/b", "mine/HEAD"):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).touch()
    assert find_repository(str(tree)) == ""
    assert find_repository(str(tree), entries=2) == find_repository(str(tree), seconds=-1.0) == str(tree)
    (tree / "mine/objects").mkdir()
    (tree / "mine/refs").mkdir()
    assert find_repository(str(tree)) == str(tree / "mine")
    (tree / "mine/.git").write_text("gitdir: elsewhere")
    assert find_repository(str(tree)) == str(tree / "mine/.git")


def test_keys_of_the_workspace_are_copied_only_when_asked_for(work: Path, tmp_path: Path) -> None:
    (work / "own").mkdir()
    (work / "own/.env").write_text("NAME=value")
    (work / ".ssh").mkdir()
    (work / ".ssh/id_rsa").write_text("KEY")
    theirs = structs.replace(places(tmp_path), home=str(work))
    states = {
        (name, keys): StateReader(theirs, 100, copies_keys=keys).read_state(str(work / name)).kind
        for name in ("own/.env", ".ssh/id_rsa")
        for keys in (False, True)
    }
    assert states["own/.env", True] is Kind.FILE
    assert {kind for one, kind in states.items() if one != ("own/.env", True)} == {Kind.HIDDEN}


def test_a_hard_link_to_a_key_is_not_copied(work: Path, tmp_path: Path) -> None:
    keys = tmp_path / "home" / ".ssh"
    keys.mkdir(parents=True)
    (keys / "id_plain").write_text("THE KEY")
    os.link(keys / "id_plain", work / "notes")
    assert look(tmp_path).items[b"notes"].state.kind is Kind.HIDDEN


async def test_old_checkpoints_go_and_their_contents_with_them(tmp_path: Path) -> None:
    clock = ManualClock()
    store = await Store.open(tmp_path / "h", clock)
    try:
        await store.sessions.create(NewSession(id="s"))
        objects = ObjectStore(tmp_path / "store")
        marks = []
        for number in range(6):
            marks.append(objects.put(b"%d" % number * 100))
            change = FileChange(f"/w/f{number}", FileState(Kind.FILE, 0o644, marks[-1], 100), FileState(Kind.ABSENT))
            made = await store.checkpoints.add(
                NewCheckpoint(session_id="s", turn_id=f"t{number}", folder="/w"), [change]
            )
            await store.checkpoints.settle(made, [])
            await clock.advance(86_400)
        await prune_folder("/w", store.checkpoints, objects, CheckpointRetention(most=4, days=100), clock.now())
        assert [row.turn_id for row in await store.checkpoints.list_of_session("s")] == ["t5", "t4", "t3", "t2"]
        await prune_folder("/w", store.checkpoints, objects, CheckpointRetention(most=4, days=3), clock.now())
        assert [row.turn_id for row in await store.checkpoints.list_of_session("s")] == ["t5", "t4", "t3"]
        assert [objects.get(mark) is not None for mark in marks] == [False] * 3 + [True] * 3
        objects.bytes_added = 10**9
        await prune_folder("/w", store.checkpoints, objects, CheckpointRetention(total=1), clock.now())
        assert await store.checkpoints.list_of_session("s") == [] and not any(map(objects.get, marks))
        await store.erasure.delete_session("s")
        assert not await store.check_integrity()
    finally:
        await store.close()


async def test_what_was_written_is_noted_small_or_large_and_even_when_the_session_is_gone(tmp_path: Path) -> None:
    store = await Store.open(tmp_path / "h", ManualClock())
    try:
        await store.sessions.create(NewSession(id="s"))
        deps = CheckpointDeps(
            session_id="s",
            places=places(tmp_path),
            backend_name="local",
            objects=ObjectStore(tmp_path / "store"),
            ledger=store.checkpoints,
            limit=1_000_000,
            total=1_000_000,
        )
        keeper = CheckpointRecorder(deps, lambda: "turn_1")
        small, large = tmp_path / "small", tmp_path / "large"
        for path in (small, large):
            path.write_text("before")
        await keeper.save_before([str(small), str(large)], anything=False)
        small.write_text("after")
        large.write_text("after" * 100_000)
        await keeper.record_after([str(small)])
        await keeper.record_after([str(large)])
        await keeper.close()
        (checkpoint,) = await store.checkpoints.list_of_session("s")
        noted = {Path(one.path).name: one.after for one in await store.checkpoints.list_changes(checkpoint.id)}
        sizes = {"small": 5, "large": 500_000}
        assert noted == {
            name: FileState(Kind.FILE, 0o644, digest_content((tmp_path / name).read_bytes()), size)
            for name, size in sizes.items()
        }
        await store.erasure.delete_session("s")
        await keeper.record_after([str(small)])
        await keeper.close()
        assert not await store.check_integrity()
    finally:
        await store.close()


async def test_what_cannot_be_kept_is_said_once_and_holds_nothing_up(tmp_path: Path, work: Path) -> None:
    told: list[str] = []
    store = await Store.open(tmp_path / "h", ManualClock())
    (tmp_path / "store").write_text("a file where a folder should be")
    try:
        await store.sessions.create(NewSession(id="s"))
        ground = CheckpointDeps(
            session_id="s",
            places=places(tmp_path),
            backend_name="local",
            objects=ObjectStore(tmp_path / "store"),
            ledger=store.checkpoints,
            limit=1_000,
            total=1_000,
            notify=told.append,
        )
        keeper = CheckpointRecorder(ground, lambda: "turn_1")
        for _ in range(2):
            await keeper.save_before([str(work / "a")], anything=True)
        assert len(told) == 1 and "cannot be undone" in told[0]
        assert await keeper.close_turn("turn_1")
        await keeper.close()
    finally:
        await store.close()


def test_undo_replaces_no_file_by_a_new_name_that_cannot_come_back_by_the_old_one(tmp_path: Path, work: Path) -> None:
    """By its new name it has a copy, but what is put back there is all that would be left of it."""
    (work / ".envrc").write_text("mine")
    (work / "notes").write_text("n")
    reader = StateReader(places(tmp_path), 10_000_000, ObjectStore(tmp_path / "store"))
    was = [PathHistory(str(work / name), reader.read_state(str(work / name)), ()) for name in (".envrc", "notes")]
    (work / ".envrc").rename(work / "notes")
    outcomes = {one.path: one.outcome for one in plan_restore(was, reader)}
    assert outcomes == {str(work / ".envrc"): RestoreOutcome.UNCOPIED, str(work / "notes"): RestoreOutcome.ONLY}


def keep(tmp_path: Path, known: FolderListing | None, bounds: ScanLimits | None = None) -> FolderListing:
    reader = StateReader(places(tmp_path), 10_000_000, ObjectStore(tmp_path / "store"))
    bounds = bounds or ScanLimits(ignored_bytes=100_000, ignored_entries=100)
    return FolderScan(str(tmp_path / "w"), places(tmp_path), reader, bounds, keeps_known=True).scan_folder(known)


def test_what_is_ignored_since_keeps_its_copies_and_gets_no_more(tmp_path: Path, work: Path) -> None:
    (work / ".git").mkdir()
    (work / "build").mkdir()
    for name in ("a", "b", "c"):
        (work / "build" / name).write_text(name)
    listing = keep(tmp_path, None)
    (work / ".gitignore").write_text("build/\n")
    (work / "build/b").write_text("changed")
    (work / "build/c").unlink()
    (work / "build/new").write_text("new")
    for _ in range(2):
        listing = keep(tmp_path, listing)
        assert names(listing) == {".gitignore", "build", "build/a", "build/b"}
    assert listing.items[b"build/b"].state.size == len("changed") and not listing.knows_absence()(b"build/new")
    assert names(keep(tmp_path, listing, ScanLimits(ignored_bytes=3))) == {".gitignore", "build", "build/a"}
    assert names(keep(tmp_path, None)) == {".gitignore"}


def test_what_was_listed_before_a_limit_is_met_stays_listed(tmp_path: Path, work: Path) -> None:
    (work / "thesis").write_text("mine")
    listing = keep(tmp_path, None)
    for number in range(30):
        (work / f"!{number}").write_text("")
    listing = keep(tmp_path, listing, ScanLimits(entries=10, ignored_bytes=100))
    assert not listing.whole and b"thesis" in listing.items
    (work / "thesis").rename(work / "elsewhere")
    assert b"thesis" not in keep(tmp_path, listing, ScanLimits(entries=10, ignored_bytes=100)).items


def test_rules_with_stars_between_names_have_a_limit(tmp_path: Path, work: Path) -> None:
    (work / ".git").mkdir()
    (work / ".gitignore").write_text("".join(f"**/x/**/x/**/x{number}\n" for number in range(1990)))
    (work / ("x/" * 95)).mkdir(parents=True)
    found = []

    def scan() -> None:
        found.append(look(tmp_path, bounds=ScanLimits(seconds=600)))  # work is limited, not the clock of a busy machine

    # 3,600 units, with 50 of these rules too; the limit is what keeps 1,990 of them from forty times as much.
    assert count_cpu_units(scan, tries=2, clock=time.process_time) < 12_000 and found[0].whole


def test_many_losses_are_looked_for_in_many_files_without_copies_fast(tmp_path: Path, work: Path) -> None:
    for number in range(3_000):
        (work / f"f{number:04}").write_text("x")
    base = look(tmp_path, bounds=ScanLimits(total_bytes=10))
    losses = [FileLoss(str(work / f"f{number:04}")) for number in range(3_000)]
    found: dict[FileLoss, str] = {}

    def search() -> None:
        found.update(find_uncovered(losses, base, places(tmp_path)))

    units = count_cpu_units(search, tries=1, clock=time.process_time)
    assert units < 4_000, units
    assert [one for one in losses if not found[one]] == losses[:10]
    assert find_uncovered([FileLoss(str(work))], base, places(tmp_path)).popitem()[1] == str(work / "f0010")


def test_folders_named_like_ignore_files_leave_no_handle_open(tmp_path: Path, work: Path) -> None:
    (work / ".git/info/exclude").mkdir(parents=True)
    (work / "data/.gitignore").mkdir(parents=True)
    (work / "data/x").write_text("x")
    handles = len(os.listdir("/proc/self/fd"))
    assert names(look(tmp_path)) == {"data", "data/.gitignore", "data/x"}
    assert len(os.listdir("/proc/self/fd")) == handles


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_nothing_at_the_temporary_name_blocks_a_restore(tmp_path: Path, work: Path, kind: str) -> None:
    objects = ObjectStore(tmp_path / "store")
    reader = StateReader(places(tmp_path), 10_000_000, objects)
    (work / "thesis").write_text("mine")
    was = PathHistory(str(work / "thesis"), reader.read_state(str(work / "thesis")), ())
    (work / "thesis").write_text("evil")
    other = work / _build_temporary_name(str(work / "thesis"))
    other.mkdir() if kind == "folder" else other.write_text("x")
    (done,) = restore_files(plan_restore([was], reader, force=True), reader, objects)
    assert done.outcome is RestoreOutcome.RESTORE and (work / "thesis").read_text() == "mine"
    assert sorted(os.listdir(work)) == sorted((other.name, "thesis"))


def test_what_was_moved_aside_is_no_change_of_a_turn(tmp_path: Path, work: Path) -> None:
    (work / "a.held").write_text("a")
    (work / "b.held").write_text("b")
    before = look(tmp_path)
    (work / "a.held").unlink()
    (work / "new").write_text("moved aside")
    (work / "new").rename(work / "b.held")
    (work / "c.held").write_text("c")
    found = find_differences(before, look(tmp_path), lambda _: FileState(Kind.ABSENT))
    assert found.keys() == {b"a.held"}
