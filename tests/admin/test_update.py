"""Updating: a clone against a bare repository, an installation against an index on loopback; going back on failure."""

import base64
import ensurepip
import hashlib
import http.server
import json
import shutil
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes.admin.update import (
    CLONE,
    PIP,
    PIPX,
    UNKNOWN,
    UV_TOOL,
    Installation,
    UpdateCommandResult,
    UpdateCommandRunner,
    Updater,
    detect_installation,
)
from hermes.core.errors import BusyError, StoreError, UsageError
from hermes.runtime.locks import session_lock
from hermes.testing.home import TempHome
from tests.execution.test_worktrees import git
from tests.forked_hermes import run_hermes
from tests.sessions.stored_sessions import say_in

pytestmark = pytest.mark.slow

MAIN = """\
import json, sys
VERSION = {version!r}
if {broken!r} == "crashes":
    raise SystemExit("it does not even start")
if sys.argv[1] == "doctor":
    print("no JSON" if {broken!r} == "confused" else json.dumps({{"checks": []}}))
else:
    print("hermes", VERSION)
"""


class Cloned:
    """A clone of a bare repository, with a package that says its version."""

    def __init__(self, home: TempHome) -> None:
        self.home = home
        self.source, self.clone = home.root / "source", home.root / "clone"
        self.source.mkdir()
        git(home.environ, self.source, "init", "-q")
        self.publish("1.0")
        git(home.environ, home.root, "clone", "-q", str(self.source), str(self.clone))
        environ = {name: value for name, value in home.environ.items() if name != "PYTHONPATH"}
        installed = Installation(kind=CLONE, root=str(self.clone), python=sys.executable, version="1.0")
        self.updater = Updater(installed, home.environ, UpdateCommandRunner(environ, seconds=30))

    def publish(self, version: str, broken: str = "") -> None:
        """Let the repository have another version."""
        package = self.source / "hermes"
        package.mkdir(exist_ok=True)
        (package / "__init__.py").touch()
        (package / "__main__.py").write_text(MAIN.format(version=version, broken=broken))
        git(self.home.environ, self.source, "add", ".")
        git(self.home.environ, self.source, "commit", "-qm", version)

    @property
    def head(self) -> str:
        """The commit that the clone stands at."""
        return git(self.home.environ, self.clone, "rev-parse", "HEAD")


@pytest.mark.needs("git")
async def test_a_clone_is_brought_forward_after_a_backup() -> None:
    with TempHome({}) as home:
        await say_in(home, "s1", "hello")
        cloned = Cloned(home)
        assert (
            cloned.updater.check_for_update()["newer"] == ""
            and cloned.updater.update_installation()["updated"] is False
        )
        cloned.publish("2.0")
        assert cloned.updater.check_for_update()["newer"] == "1 new commit"
        done = cloned.updater.update_installation()
        assert (done["updated"], done["now"]) == (True, "2.0")
        assert Path(str(done["backup"])).exists()


@pytest.mark.needs("git")
@pytest.mark.parametrize("broken", ["crashes", "confused"])
async def test_what_does_not_work_is_taken_back(broken: str) -> None:
    with TempHome({}) as home:
        cloned = Cloned(home)
        before = cloned.head
        cloned.publish("2.0", broken)
        with pytest.raises(StoreError, match="is there again"):
            cloned.updater.update_installation()
        assert cloned.head == before


@pytest.mark.needs("git")
async def test_a_clone_with_changes_is_left_alone() -> None:
    with TempHome({}) as home:
        cloned = Cloned(home)
        cloned.publish("2.0")
        (cloned.clone / "hermes/__init__.py").write_text("# mine\n")
        before = cloned.head
        with pytest.raises(UsageError, match="hermes/__init__"):
            cloned.updater.update_installation()
        assert cloned.head == before and (cloned.clone / "hermes/__init__.py").read_text() == "# mine\n"


@pytest.mark.needs("git")
async def test_nothing_is_updated_under_an_open_session() -> None:
    with TempHome({}) as home:
        cloned = Cloned(home)
        cloned.publish("2.0")
        before = cloned.head
        async with session_lock(home.hermes / "run", "s1"):
            with pytest.raises(BusyError, match="s1"):
                cloned.updater.update_installation()
        assert cloned.head == before


def wheel(folder: Path, version: str, broken: str = "") -> None:
    """A wheel of the distribution with nothing in it but a program that says its version."""
    info = f"hermes_anew-{version}.dist-info"
    files = {
        "hermes/__init__.py": f"__version__ = {version!r}\n",
        "hermes/__main__.py": MAIN.format(version=version, broken=broken),
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: hermes-anew\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    sums = {
        name: base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        for name, text in files.items()
    }
    files[f"{info}/RECORD"] = (
        "".join(f"{name},sha256={sums[name]},{len(text)}\n" for name, text in files.items()) + f"{info}/RECORD,,\n"
    )
    with zipfile.ZipFile(folder / f"hermes_anew-{version}-py3-none-any.whl", "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)


@pytest.fixture
def index(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A folder of wheels and the address of an index on loopback that serves it."""
    folder = tmp_path / "wheels"
    folder.mkdir()

    class Index(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *arguments: object) -> None:
            super().__init__(*arguments, directory=str(folder))  # type: ignore[arg-type]

        def do_GET(self) -> None:
            if not self.path.startswith("/simple/hermes-anew"):
                super().do_GET()
                return
            page = "".join(f'<a href="/{one.name}">{one.name}</a>' for one in folder.iterdir()).encode()
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(page)

        def log_request(self, *_: object) -> None:
            """Say nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Index) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield folder, f"http://127.0.0.1:{server.server_port}/simple/"
        server.shutdown()
        thread.join()


async def test_an_installation_by_pip_is_brought_forward_and_back(index: tuple[Path, str]) -> None:
    wheels, url = index
    with TempHome({}) as home:
        bundled = sorted(Path(ensurepip.__file__).parent.glob("_bundled/pip-*.whl"))
        if not bundled:
            pytest.skip("this Python brings no pip along")
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home.root / "venv")], check=True)
        python = str(home.root / "venv/bin/python")
        with zipfile.ZipFile(bundled[-1]) as pip:
            pip.extractall(home.root / "pip")
        environ = home.environ | {"PYTHONPATH": str(home.root / "pip")}
        environ |= {"PIP_INDEX_URL": url, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_CACHE_DIR": "1"}
        runner = UpdateCommandRunner(environ, seconds=60)
        wheel(wheels, "1.0")
        assert runner.run_command([python, "-m", "pip", "install", "--quiet", "hermes-anew"], str(home.root)).code == 0
        updater = Updater(
            Installation(kind=PIP, root=str(home.root), python=python, version="1.0"), home.environ, runner
        )
        wheel(wheels, "2.0", "crashes")
        with pytest.raises(StoreError, match="is there again"):
            updater.update_installation()
        assert runner.run_command([python, "-m", "hermes", "version"], str(home.root)) == UpdateCommandResult(
            0, "hermes 1.0\n", ""
        )
        wheel(wheels, "3.0")
        assert updater.update_installation()["now"] == "3.0"


def test_what_nobody_knows_is_said() -> None:
    updater = Updater(Installation(kind=UNKNOWN, root="/nowhere", python=sys.executable, version="1"), {})
    assert updater.describe_installation()["command"] == []
    with pytest.raises(UsageError, match="It is unknown how"):
        updater.check_for_update()


@pytest.mark.needs("git")
async def test_the_verb_changes_nothing_without_a_yes() -> None:
    assert detect_installation().python == sys.executable
    with TempHome({}) as home:
        done = await home.run(sys.executable, "-m", "hermes", "update")
        assert done.code == 2 and "add --yes" in done.stderr and done.stdout.startswith("Hermes ")


@pytest.mark.needs("git")
async def test_the_verb_says_how_many_commits_a_clone_has_taken() -> None:
    """The version need not change with every commit."""
    with TempHome({}) as home:
        source, clone = home.root / "source", home.root / "clone"
        repository = Path(__file__).parents[2]
        shutil.copytree(repository / "hermes", source / "hermes", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(repository / "pyproject.toml", source)
        for words in (("init", "-q"), ("add", "."), ("commit", "-qm", "first")):
            git(home.environ, source, *words)
        git(home.environ, home.root, "clone", "-q", str(source), str(clone))
        for number in range(2):
            git(home.environ, source, "commit", "-q", "--allow-empty", "-m", f"more {number}")
        update = f'cd "{clone}" && PYTHONPATH="{clone}" exec "{sys.executable}" -m hermes update --yes'
        done = await home.run("sh", "-c", update)
        again = await home.run("sh", "-c", update)
    assert (done.code, done.stdout.splitlines()[-1]) == (0, "Updated: 2 new commits."), done
    assert again.stdout.splitlines()[-1] == "Hermes is up to date."


async def test_what_removes_it_is_said_and_nothing_is_removed() -> None:
    with TempHome({}) as home:
        done = await run_hermes(home, "uninstall")
        found = json.loads((await run_hermes(home, "uninstall", "--json")).stdout)
        assert (home.hermes / "config.yaml").exists()
    assert done.code == 0 and f"stay in {home.hermes}" in done.stdout and found["home"] == str(home.hermes)
    assert all(" ".join(command) in done.stdout for command in found["commands"])


def test_each_way_of_installing_has_its_way_back() -> None:
    removes = {
        kind: Updater(Installation(kind=kind, root="/x", python="/x/python", version="1"), {}).removal_command()
        for kind in (PIP, PIPX, UV_TOOL, CLONE)
    }
    assert removes == {
        PIP: ["/x/python", "-m", "pip", "uninstall", "hermes-anew"],
        PIPX: ["pipx", "uninstall", "hermes-anew"],
        UV_TOOL: ["uv", "tool", "uninstall", "hermes-anew"],
        CLONE: [],
    }
