"""What flows between the commands of a line: through pipes, files and descriptors."""

import re

from hermes.safety.globs import spelled
from hermes.safety.shell.call import (
    BLOCK_DEVICE,
    Call,
    Host,
    judge_write,
    names_secret,
    private,
    resolve,
    said_of_secret,
    temporary,
)
from hermes.safety.shell.findings import EffectKind, Verdict
from hermes.safety.shell.key_files import called, holds_key
from hermes.safety.shell.words import (
    DECODED,
    ENDLESS,
    FETCHED,
    NONE,
    NOTHING,
    REMADE,
    SECRET,
    UNTOLD,
    State,
    Stream,
    Word,
)

_SYSTEM_PROGRAMS = ("/bin/", "/usr/", "/sbin/", "/opt/", "/snap/", "/nix/")
_MOST = 100_000
_PASSING = re.compile(r"\.(log|tmp|lock|pid|out|err|txt)$|/\.?(gitkeep|keep|nojekyll)$|/__init__\.py$")
FILLERS = ("/dev/zero", "/dev/urandom", "/dev/random", "/dev/full")
"""Files that never end."""


def joined(one: Stream, other: Stream) -> Stream:
    """What two outputs are, one after the other."""
    if one is NOTHING:
        return other
    if other is NOTHING:
        return one
    known = one.text is not None and other.text is not None and len(one.text) + len(other.text) < _MOST
    labels = one.labels | other.labels
    if REMADE in labels and REMADE not in one.labels & other.labels:
        labels -= {REMADE}
    return Stream((one.text or "") + (other.text or "") if known else None, labels)


def read_from(host: Host, target: Word, state: State) -> Stream:
    """What a command gets by `< target`."""
    path = resolve(target.text, state.where.now, host.places)
    held = state.files.get(path)
    if held is not None:
        return held
    if path.startswith(("/dev/tcp/", "/dev/udp/")):
        host.note(EffectKind.FETCHES, (), (path.split("/")[3],))
        return Stream(None, frozenset({FETCHED}))
    if reason := names_secret(target, state.where.now, host.places):
        host.note(EffectKind.READS, (), (path,))
        host.say(*said_of_secret(path, reason, host.places), spelled(("<", path)), contained=True)
        return Stream(None, frozenset({SECRET}))
    if holds_key(path, host.places):
        host.say(Verdict.ASK, "reads-secret", called(path), spelled(("<", path)), contained=True)
        return Stream(None, frozenset({SECRET}))
    if path == "/dev/null":
        return Stream("")
    if fills(path):
        return Stream(None, frozenset({ENDLESS}))
    return Stream(None, target.labels | ({SECRET} if private(path) else NONE))


def written_to(host: Host, path: str, operator: str, state: State) -> None:
    """Judge a redirect into a file."""
    if path.startswith("/dev/") and not BLOCK_DEVICE.match(path):
        return
    kind = EffectKind.WRITES if ">>" in operator else EffectKind.OVERWRITES
    host.note(kind, (operator, path), (path,))
    judge_write(host, path, "writes", spelled((">", path)), state)


def judge_stored(host: Host, path: str, operator: str, out: Stream, state: State) -> None:
    """Judge what a file comes to hold: nothing, or more than there is room for."""
    if ENDLESS in out.labels:
        host.note(EffectKind.EXHAUSTS, (operator, path), (path,))
        host.say(Verdict.ASK, "fills", "it fills the disk", spelled((">", path)), contained=False)
    elif out.text in ("", "\n") and ">>" not in operator and path not in state.files and not passing(path, host):
        host.say(Verdict.ASK, "emptied", f"it empties {path}", spelled((">", path)), contained=False)


def passing(path: str, host: Host) -> bool:
    """Whether nobody misses what a file held."""
    return _PASSING.search(path) is not None or path.startswith(("/proc/", "/sys/")) or temporary(path, host.places)


def sent(host: Host, path: str) -> None:
    """Judge an output that goes to a `/dev/tcp` path."""
    host.note(EffectKind.SENDS, (">", path), (path.split("/")[3],))
    host.say(Verdict.ASK, "remote-shell", "it writes into a raw connection", "", contained=False)


def program_file(call: Call, path: str) -> None:
    """Judge a program that is named by its path."""
    if path.startswith(("/etc/init.d/", "/etc/rc.d/", "/usr/local/etc/rc.d/")) and call.args[:1] in (
        ["stop"],
        ["onestop"],
    ):
        call.ask("service", "it stops what the machine needs")
    if call.args == ["-p"] and temporary(path, call.host.places):
        call.ask("privilege", "it runs with another user's rights")
    if not path.startswith(_SYSTEM_PROGRAMS):
        call.effect(EffectKind.RUNS, (path,))
    runs_file(call, path, script=True)


def runs_file(call: Call, path: str, *, script: bool) -> Stream | None:
    """Judge a file whose content runs; what it holds when this line wrote it.

    A file that was downloaded or decoded a moment ago is what is piped into a shell, in two steps.
    """
    held = held_at(call.state, path)
    if held is None:
        return None
    if held.labels & {FETCHED, DECODED}:
        call.ask("remote-exec", "it runs what it downloads or decodes")
    elif held.text is None:
        call.ask("runs-written", "it runs a file that this line makes")
    if held.text is not None and script and not held.text.startswith(("#!/usr/bin/env python", "#!/usr/bin/python")):
        outer, call.state.positional = call.state.positional, call.words
        call.script(held.text)
        call.state.positional = outer
    return held


def held_at(state: State, path: str) -> Stream | None:
    """What this line put into a file, or into a folder above it."""
    if not state.files:
        return None
    held = state.files.get(path)
    for _ in range(8):
        if held is not None or "/" not in path:
            return held
        path = path.rpartition("/")[0]
        held = state.files.get(path)
        if held is not None:
            return held if FETCHED in held.labels else None
    return None


def runs_folder(call: Call, path: str) -> None:
    """Judge a folder out of which code is taken."""
    call.effect(EffectKind.RUNS, (path,))
    held = held_at(call.state, path)
    if held is not None and FETCHED in held.labels:
        call.ask("remote-exec", "it runs what it downloads")


def looked_up(call: Call, word: Word) -> Stream:
    """What the file of a word holds, as far as this line knows."""
    if word.text in ("-", "/dev/stdin"):
        return call.stdin
    if word.text == "/dev/null":
        return NOTHING
    held = call.state.files.get(word.text) or call.state.files.get(call.path(word))
    return held if held is not None else UNTOLD


def fills(path: str) -> bool:
    """Whether a file never ends."""
    return path in FILLERS
