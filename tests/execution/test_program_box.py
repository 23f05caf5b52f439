"""A program that confines its own parts: what of the machine it may change. It asks, and changes nothing."""

import asyncio
import os
from pathlib import Path

import pytest

from hermes.execution.sandbox.probe import SandboxProbe
from hermes.execution.sandbox.program_box import ProgramBox, explain_missing_box, find_interpreter, make_boxed_call
from hermes.execution.supervisor import LaunchRequest, Supervisors

_ASK = """
import os, subprocess, sys
def ask(where):
    found = []
    for top, folders, files in os.walk("/proc"):
        if top == "/proc":
            folders[:] = [one for one in folders if not one.isdigit()]
        paths = [path for one in files if not os.path.islink(path := os.path.join(top, one))]
        found += [one for one in paths if os.lstat(one).st_mode & 0o222 and os.access(one, os.W_OK)]
    print(where, found[:5], flush=True)
ask(sys.argv[1])
if sys.argv[1] == "box":
    inner = "umount -l /proc/sys; mount -o remount,rw,bind /proc/sys; exec \\"$@\\""
    sh = ["sh", "-c", inner, "sh", sys.executable, "-I", "-S", "-c", sys.orig_argv[-2], "inside"]
    sys.exit(subprocess.call(["unshare", "-Urm", *sh], stderr=subprocess.DEVNULL))
"""


async def test_it_may_change_no_setting_of_the_kernel(tmp_path: Path) -> None:
    environ = dict(os.environ)
    support = await SandboxProbe(environ).find_support()
    if why := explain_missing_box(support, confines_itself=True):
        pytest.skip(why)
    box = ProgramBox(
        program=(find_interpreter(), "-I", "-S", "-c", _ASK, "box"),
        folder="/",
        variables={"PATH": "/usr/bin:/bin"},
        can_start_processes=True,
        confines_itself=True,
    )
    supervisors = Supervisors(environ)
    output = tmp_path / "output"
    with output.open("wb") as out, open(os.devnull, "rb") as null, make_boxed_call(box, support) as call:
        tree = await supervisors.start(
            LaunchRequest(
                folder="/",
                arguments=call.arguments,
                environment={},
                source=null.fileno(),
                output=out.fileno(),
                extra_handles=(out.fileno(), *call.handles),
            )
        )
        assert tree is not None
        await asyncio.wait_for(tree.wait_until_gone(60), 60)
    await supervisors.close()
    assert output.read_text().splitlines() == ["box []", "inside []"]
