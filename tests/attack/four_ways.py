"""Runs attacks in bubblewrap and in Landlock alone, as the superuser and as an ordinary user: `make ways`.

    python -m tests.attack.four_ways            the attacks that go through a whole session
    python -m tests.attack.four_ways FILE ...   others; what is made for one mechanism is skipped in the other

It is started by the superuser. An ordinary user needs a namespace of users for bubblewrap.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

FILES = tuple(
    f"tests/{name}.py"
    for name in (
        *("attack/test_obeyed_files", "attack/test_pointers", "attack/test_sandboxed_effects"),
        *("attack/test_taint_by_effect", "attack/test_taint_by_history", "attack/test_git_settings"),
        *("attack/test_kept_beside", "attack/test_opened_copies"),
        *(
            "attack/test_seeded_homes",
            "attack/test_opened_paths",
            "execution/test_baseline",
            "execution/test_home_rows",
        ),
    )
)
MECHANISMS = ("bubblewrap", "landlock")
USER = 65534


def run_as_user(arguments: Sequence[str], mechanism: str = "") -> "subprocess.CompletedProcess[str]":
    """Run pytest as a user without rights, in a folder of their own; what it prints is returned."""
    folder = tempfile.mkdtemp(dir="/tmp")
    os.chown(folder, USER, USER)
    python = next(one for one in (sys.executable, f"/usr/bin/python3.{sys.version_info[1]}") if _is_open_to_all(one))
    paths = [one for one in sys.path if "site-packages" in one]
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": folder,
        "PYTHONPATH": ":".join([os.getcwd(), *paths]),
        "TMPDIR": folder,
        "HERMES_TESTS_SANDBOX": mechanism,
    }
    user = ("setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups")
    call = [*user, python, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--basetemp={folder}/t", *arguments]
    try:
        return subprocess.run(call, env=environ, check=False, capture_output=True, text=True)
    finally:
        shutil.rmtree(folder)


def _is_open_to_all(program: str) -> bool:
    """Return whether others than its owner may run it."""
    real = Path(program).resolve()
    return real.is_file() and all(folder.stat().st_mode & 1 for folder in (real, *real.parents))


def main(files: Sequence[str]) -> int:
    """Run the files in the four ways; return how many ways had failures."""
    failed = 0
    for mechanism in MECHANISMS:
        environ = {**os.environ, "HERMES_TESTS_SANDBOX": mechanism}
        call = [sys.executable, "-m", "pytest", "-q", "-n", "2", *files]
        as_root = subprocess.run(call, env=environ, check=False, capture_output=True, text=True)
        for name, done in (("superuser", as_root), ("ordinary user", run_as_user(["-n", "2", *files], mechanism))):
            said = "held" if done.returncode == 0 else f"{done.stdout[-6000:]}{done.stderr[-1000:]}"
            sys.stdout.write(f"{mechanism}, {name}: {said}\n")
            sys.stdout.flush()
            failed += done.returncode != 0
    return failed


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:] or FILES))
