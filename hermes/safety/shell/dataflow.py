"""Data flow between the commands of a line: through pipes, files and descriptors.

Content that programs leave in files for later commands of a line: unpacked archives,
and files that programs write.
"""

import fnmatch
import re
from collections.abc import Sequence

from hermes.i18n.messages import N_
from hermes.safety.globs import quote_argv
from hermes.safety.shell.call import (
    BLOCK_DEVICE,
    AnalysisHost,
    ProgramCall,
    classify_secret_read,
    is_temporary,
    judge_path_write,
    resolve_path,
    secret_read_reason,
)
from hermes.safety.shell.findings import EffectKind, Verdict
from hermes.safety.shell.key_files import is_key_file, is_key_listing, is_private_file, key_read_reason
from hermes.safety.shell.regenerable import is_lossless_delete
from hermes.safety.shell.words import (
    EMPTY_STREAM,
    NO_LABELS,
    UNKNOWN_STREAM,
    AnalysisState,
    Label,
    ShellStream,
    Word,
    word_set,
)

_SYSTEM_PROGRAMS = ("/bin/", "/usr/", "/sbin/", "/opt/", "/snap/", "/nix/")
_MAX_TEXT = 100_000
_DISPOSABLE_FILE = re.compile(r"\.(log|tmp|lock|pid|out|err|txt)$|/\.?(gitkeep|keep|nojekyll)$|/__init__\.py$")
ENDLESS_FILES = ("/dev/zero", "/dev/urandom", "/dev/random", "/dev/full")
"""Files that never end."""


def join_streams(one: ShellStream, other: ShellStream) -> ShellStream:
    """Return two outputs, one after the other, as one stream."""
    if one is EMPTY_STREAM:
        return other
    if other is EMPTY_STREAM:
        return one
    known = one.text is not None and other.text is not None and len(one.text) + len(other.text) < _MAX_TEXT
    labels = one.labels | other.labels
    if Label.REGENERABLE in labels and Label.REGENERABLE not in one.labels & other.labels:
        labels -= {Label.REGENERABLE}
    return ShellStream((one.text or "") + (other.text or "") if known else None, labels)


def read_redirect(host: AnalysisHost, target: Word, state: AnalysisState) -> ShellStream:
    """Judge `< target`. Return the input that the command gets."""
    path = resolve_path(target.text, state.where.current, host.places)
    held = state.files.get(path)
    if held is not None:
        return held
    if path.startswith(("/dev/tcp/", "/dev/udp/")):
        host.add_effect(EffectKind.FETCHES, (), (path.split("/")[3],))
        return ShellStream(None, frozenset({Label.FETCHED}))
    if reason := secret_read_reason(target, state.where.current, host.places):
        host.add_effect(EffectKind.READS, (), (path,))
        host.add_finding(*classify_secret_read(path, reason, host.places), quote_argv(("<", path)), contained=True)
        return ShellStream(None, frozenset({Label.SECRET}))
    if is_key_file(path, host.places):
        host.add_finding(Verdict.ASK, "reads-secret", key_read_reason(path), quote_argv(("<", path)), contained=True)
        return ShellStream(None, frozenset({Label.SECRET}))
    if path == "/dev/null":
        return ShellStream("")
    if is_endless_file(path):
        return ShellStream(None, frozenset({Label.ENDLESS}))
    return ShellStream(None, target.labels | ({Label.SECRET} if is_private_file(path) else NO_LABELS))


def judge_write_redirect(host: AnalysisHost, path: str, operator: str, state: AnalysisState) -> None:
    """Judge a redirect into a file."""
    if path.startswith("/dev/") and not BLOCK_DEVICE.match(path):
        return
    kind = EffectKind.WRITES if ">>" in operator else EffectKind.OVERWRITES
    host.add_effect(kind, (operator, path), (path,))
    judge_path_write(host, path, "writes", quote_argv((">", path)), state)


def judge_stored_output(host: AnalysisHost, path: str, operator: str, out: ShellStream, state: AnalysisState) -> None:
    """Judge the content that a file gets: nothing, or more than there is room for."""
    if Label.ENDLESS in out.labels:
        host.add_effect(EffectKind.EXHAUSTS, (operator, path), (path,))
        host.add_finding(Verdict.ASK, "fills", "it fills the disk", quote_argv((">", path)), contained=False)
    elif out.text in ("", "\n") and ">>" not in operator and path not in state.files and not is_disposable(path, host):
        host.add_finding(
            Verdict.ASK, "emptied", N_("it empties {path}", path=path), quote_argv((">", path)), contained=False
        )


def is_disposable(path: str, host: AnalysisHost) -> bool:
    """Return whether a file's content is disposable."""
    is_kernel = path.startswith(("/proc/", "/sys/"))
    return is_kernel or _DISPOSABLE_FILE.search(path) is not None or is_temporary(path, host.places)


def judge_raw_connection(host: AnalysisHost, path: str) -> None:
    """Judge an output that goes to a `/dev/tcp` path."""
    host.add_effect(EffectKind.SENDS, (">", path), (path.split("/")[3],))
    host.add_finding(Verdict.ASK, "remote-shell", "it writes into a raw connection", "", contained=False)


def judge_program_path(call: ProgramCall, path: str) -> None:
    """Judge a program that is named by its path."""
    is_service = path.startswith(("/etc/init.d/", "/etc/rc.d/", "/usr/local/etc/rc.d/"))
    if is_service and call.args[:1] in (["stop"], ["onestop"]):
        call.ask("service", "it stops what the machine needs")
    if call.args == ["-p"] and is_temporary(path, call.host.places):
        call.ask("privilege", "it runs with another user's rights")
    if not path.startswith(_SYSTEM_PROGRAMS):
        call.add_effect(EffectKind.RUNS, (path,))
    judge_run_file(call, path, script=True)


def judge_run_file(call: ProgramCall, path: str, *, script: bool) -> ShellStream | None:
    """Judge a file that is run. Return its content when this line wrote it.

    Running a file that was just downloaded or decoded is the same as piping it into a shell.
    """
    held = written_content(call.state, path)
    if held is None:
        return None
    if not call.ask_about_origin(held.labels) and held.text is None:
        call.ask("runs-written", "it runs a file that this line makes")
    if held.text is not None and script and not held.text.startswith(("#!/usr/bin/env python", "#!/usr/bin/python")):
        outer, call.state.positional = call.state.positional, call.words
        call.judge_script(held.text)
        call.state.positional = outer
    return held


def written_content(state: AnalysisState, path: str) -> ShellStream | None:
    """Return the content that this line put into a file, or into a folder above it."""
    if not state.files:
        return None
    matching = (one for name, one in state.files.items() if fnmatch.fnmatchcase(name, path))
    held = state.files.get(path) or next(matching, None)
    for _ in range(8):
        if held is not None or "/" not in path:
            return held
        path = path.rpartition("/")[0]
        held = state.files.get(path)
        if held is not None:
            return held if Label.FETCHED in held.labels else None
    return None


def judge_code_folder(call: ProgramCall, path: str) -> None:
    """Judge a folder from which code is loaded."""
    call.add_effect(EffectKind.RUNS, (path,))
    held = written_content(call.state, path)
    call.ask_about_origin(held.labels & {Label.FETCHED} if held is not None else NO_LABELS)


def file_content(call: ProgramCall, word: Word) -> ShellStream:
    """Return the content of the file that a word names, as far as this line knows."""
    if word.text in ("-", "/dev/stdin"):
        return call.stdin
    if word.text == "/dev/null":
        return EMPTY_STREAM
    held = call.state.files.get(word.text) or call.state.files.get(call.resolve_path(word))
    return held if held is not None else UNKNOWN_STREAM


def is_endless_file(path: str) -> bool:
    """Return whether a file never ends."""
    return path in ENDLESS_FILES


_ENDINGS = (".gz", ".bz2", ".xz", ".zst", ".Z", ".lz4", ".lzma", ".br", ".gpg", ".age", ".enc")


_FINDERS = word_set("find fd fdfind locate plocate mdfind rg grep ls")


_DELETERS = word_set("rm unlink shred rmdir srm")


_WRITERS = word_set("""
    awk gawk mawk nawk sed gsed perl ruby node nodejs php lua python python3 deno bun vim vi nvim ex ed emacs split
    csplit sponge patch
""")
"""Programs whose own text may write files that are run next."""


_UNPACKERS = word_set("tar bsdtar unzip cpio 7z 7za unrar pax ar jar")


_DECOMPRESSORS = word_set("gunzip bunzip2 unxz unzstd uncompress gzip bzip2 xz zstd brotli lz4")


def record_left_files(call: ProgramCall, written: Sequence[str]) -> None:
    """Record the files that a program left behind. `written` are the files that it was seen to write."""
    files = call.state.files
    if call.name in _UNPACKERS:
        _record_unpacked(call)
    elif call.name in _DECOMPRESSORS:
        _record_decompressed(call)
    elif call.name in _WRITERS or call.name.rstrip("0123456789.") in _WRITERS:
        for path in written:
            files.setdefault(path, ShellStream(None, call.stdin.labels))


def _record_unpacked(call: ProgramCall) -> None:
    """Record that an archive that was downloaded makes a folder of downloaded files."""
    labels = call.stdin.labels
    for word in call.words[:40]:
        labels |= file_content(call, word).labels | word.labels
    if labels & {Label.FETCHED, Label.DECODED}:
        options = call.parse_options("Cdo", "directory one-top-level")
        folders = [*map(call.resolve_path, options.option_values("C", "d", "o", "directory")), call.cwd]
        call.state.files[folders[0]] = ShellStream(None, labels & {Label.FETCHED, Label.DECODED} | {Label.FETCHED})


def _record_decompressed(call: ProgramCall) -> None:
    for word in call.words:
        path = call.resolve_path(word)
        held = call.state.files.get(path)
        for ending in _ENDINGS if held is not None else ():
            if path.endswith(ending):
                call.state.files[path.removesuffix(ending)] = ShellStream(None, held.labels if held else NO_LABELS)


def label_search_output(call: ProgramCall, out: ShellStream) -> ShellStream:
    """Return the output of a program, labeled when it is a list of files that were searched for.

    Only the output of `find` itself can be known to name regenerable files: a program behind it may change the names.
    """
    if Label.REGENERABLE in out.labels and call.name not in ("find", "gfind"):
        out = ShellStream(out.text, out.labels - {Label.REGENERABLE})
    if call.name not in _FINDERS or out.text is not None:
        return out
    paths = [call.resolve_path(word) for word in call.words[:40] if word.text[:1] != "-"] or [call.cwd]
    keyed = is_key_listing(call.name, call.args, paths, call.host.places)
    return ShellStream(
        None, out.labels | {Label.SEARCH_RESULT, Label.KEYED} if keyed else out.labels | {Label.SEARCH_RESULT}
    )


def judge_given_names(call: ProgramCall) -> None:
    """Judge search results being deleted."""
    found = (word for word in call.words if word.dynamic and Label.SEARCH_RESULT in word.labels)
    if call.name in _DELETERS and not all(is_lossless_delete(call, word) for word in found):
        call.ask("deletes-given", "it deletes everything that it is given")
