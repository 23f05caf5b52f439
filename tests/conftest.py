"""What holds for the whole suite: no test reaches beyond this machine, and a test that lacks a program says so."""

import gc
import ipaddress
import os
import re
import shutil
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.requirements import describe_missing, require_marked
from tests.temporary_folders import move_temporary_folders, remove_temporary_folder, spread_folders

# The same examples on every machine and at every run: a suite is a gate, not a search. A search is run apart.
settings.register_profile("suite", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")

SLOW_FOLDERS = ("attack", "e2e", "ends", "torture")
"""Folders of tests that start whole programs, drive real terminals or run campaigns; not in `make test-fast`."""
_SLOW_MODULE = re.compile(r"^pytestmark = (?:pytest\.mark\.slow$|\[.*pytest\.mark\.slow\b)", re.MULTILINE)
_LOCAL_NAMES = {"localhost", "ip6-localhost"}


def _refuse_the_network(event: str, arguments: tuple[object, ...]) -> None:
    """Refuse connections and name look-ups that leave the machine; an audit hook sees every library's."""
    if event == "socket.connect":
        address = arguments[1]
        host = address[0] if isinstance(address, tuple) else ""
    elif event == "socket.getaddrinfo":
        host = arguments[0]
    else:
        return
    if isinstance(host, bytes):
        host = host.decode()
    if not isinstance(host, str) or not host or host in _LOCAL_NAMES or host.endswith(".invalid"):
        return
    try:
        local = ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        local = False
    if not local:
        raise RuntimeError(f"a test tried to reach {host}")


def _find_the_interpreter_first() -> None:
    """Make `python3` of the commands under test the interpreter itself where PATH has a version manager's script.

    Such a script starts two dozen processes before the interpreter, and tests run `python3` a thousand times.
    """
    found = shutil.which("python3")
    if found is None:
        return
    with open(found, "rb") as file:
        is_script = file.read(2) == b"#!"
    folder = Path(sys.executable).resolve().parent
    if is_script and (folder / "python3").exists():
        os.environ["PATH"] = f"{folder}{os.pathsep}{os.environ['PATH']}"


_find_the_interpreter_first()
_TEMPORARY = move_temporary_folders()
sys.addaudithook(_refuse_the_network)
# Nothing that is collected becomes garbage: the collector looks at none of it, now or between tests.
gc.disable()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave slow folders and slow modules out before they are imported when slow tests are not wanted."""
    if config.option.markexpr != "not slow":
        return None
    if collection_path.parent == Path(__file__).parent and collection_path.name in SLOW_FOLDERS:
        return True
    if not collection_path.match("test_*.py"):
        return None
    # Some of them import the official packages of providers, which takes seconds of CPU time in every worker.
    return True if _SLOW_MODULE.search(collection_path.read_text("utf-8")) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of the slow folders as slow."""
    for item in items:
        if item.path.relative_to(Path(__file__).parent).parts[0] in SLOW_FOLDERS:
            item.add_marker("slow")


def pytest_collection_finish() -> None:
    """Leave thousands of tests and their modules out of every later collection of garbage, and have fewer of these.

    What fails because something is not freed does so all the same: only cycles wait for the collector.
    """
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def _spread_folders_of_tests(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Have the folders of `tmp_path` kept apart as those of `tempfile` are."""
    spread_folders(tmp_path_factory.getbasetemp())


def pytest_unconfigure() -> None:
    """Remove the temporary files of this run."""
    if _TEMPORARY is not None:
        remove_temporary_folder(_TEMPORARY)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test before its fixtures are made when a program that it needs is missing."""
    require_marked(item)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Count the tests that were not run, by the program that is missing."""
    skipped = (one.longrepr for one in terminalreporter.stats.get("skipped", []))
    if said := describe_missing(one[2] for one in skipped if isinstance(one, tuple)):
        terminalreporter.write_line(said)
