"""What programs leave in files for those that come after them on a line: what was unpacked, or written by a program."""

from collections.abc import Sequence

from hermes.safety.shell.call import Call
from hermes.safety.shell.dataflow import judge_stored, looked_up
from hermes.safety.shell.key_files import KEYED, lists_keys
from hermes.safety.shell.regenerable import loses_nothing
from hermes.safety.shell.words import DECODED, FETCHED, NONE, REMADE, Stream, Word
from hermes.safety.shell.words import words as word_set

FOUND = "found"
"""Is a list of files that were searched for."""
_ENDINGS = (".gz", ".bz2", ".xz", ".zst", ".Z", ".lz4", ".lzma", ".br", ".gpg", ".age", ".enc")
_FINDERS = word_set("find fd fdfind locate plocate mdfind rg grep ls")
_DELETERS = word_set("rm unlink shred rmdir srm")
_WRITERS = word_set(
    """
    awk gawk mawk nawk sed gsed perl ruby node nodejs php lua python python3 deno bun vim vi nvim ex ed emacs split
    csplit sponge patch
    """
)
"""Programs whose own text may write files that are run next."""
_UNPACKERS = word_set("tar bsdtar unzip cpio 7z 7za unrar pax ar jar")
_DECOMPRESSORS = word_set("gunzip bunzip2 unxz unzstd uncompress gzip bzip2 xz zstd brotli lz4")


def left(call: Call, written: Sequence[str]) -> None:
    """Note what a program left behind. `written` are the files that it was seen to write."""
    files = call.state.files
    if call.name in _UNPACKERS:
        _unpacked(call)
    elif call.name in _DECOMPRESSORS:
        _decompressed(call)
    elif call.name in _WRITERS or call.name.rstrip("0123456789.") in _WRITERS:
        for path in written:
            files.setdefault(path, Stream(None, call.stdin.labels))


def _unpacked(call: Call) -> None:
    """An archive that was downloaded makes a folder of what was downloaded."""
    labels = call.stdin.labels
    for word in call.words[:40]:
        labels |= looked_up(call, word).labels | word.labels
    if labels & {FETCHED, DECODED}:
        call.state.files[_target(call)] = Stream(None, labels & {FETCHED, DECODED} | {FETCHED})


def _target(call: Call) -> str:
    """The folder into which an archive is unpacked."""
    for at, word in enumerate(call.words):
        text = word.text
        if text in ("-C", "-d", "--directory", "--one-top-level") and at + 1 < len(call.words):
            return call.path(call.words[at + 1])
        for option in ("--directory=", "-C", "-o"):
            if text.startswith(option) and len(text) > len(option) and text[0] == "-":
                return call.path(Word(text[len(option) :]))
    return call.cwd


def _decompressed(call: Call) -> None:
    for word in call.words:
        path = call.path(word)
        held = call.state.files.get(path)
        for ending in _ENDINGS if held is not None else ():
            if path.endswith(ending):
                call.state.files[path.removesuffix(ending)] = Stream(None, held.labels if held else NONE)


def searched(call: Call, out: Stream) -> Stream:
    """The output of a program, marked when it is a list of files that were searched for.

    That all of them can be made again is true of what `find` says alone: a program behind it may change the names.
    """
    if REMADE in out.labels and call.name not in ("find", "gfind"):
        out = Stream(out.text, out.labels - {REMADE})
    if call.name not in _FINDERS or out.text is not None:
        return out
    paths = [call.path(word) for word in call.words[:40] if word.text[:1] != "-"] or [call.cwd]
    keyed = lists_keys(call.name, call.args, paths, call.host.places)
    return Stream(None, out.labels | {FOUND, KEYED} if keyed else out.labels | {FOUND})


def judge_given(call: Call) -> None:
    """Judge what a program is given: files that were searched for and are deleted, and nothing that replaces files."""
    if call.name in _DELETERS and any(
        word.dynamic and FOUND in word.labels and not loses_nothing(call, word) for word in call.words
    ):
        call.ask("deletes-given", "it deletes everything that it is given")
    if call.name in ("tee", "sponge") and call.fed and call.stdin.text in ("", "\n") and "-a" not in call.args:
        for word in call.options().operands:
            judge_stored(call.host, call.path(word), ">", call.stdin, call.state)
