"""Content that programs leave in files for later commands of a line: unpacked archives,
and files that programs write.
"""

from collections.abc import Sequence

from hermes.safety.shell.call import ProgramCall
from hermes.safety.shell.dataflow import file_content, judge_stored_output
from hermes.safety.shell.key_files import KEYED, is_key_listing
from hermes.safety.shell.regenerable import is_lossless_delete
from hermes.safety.shell.words import DECODED, FETCHED, NO_LABELS, REGENERABLE, ShellStream, Word, word_set

SEARCH_RESULT = "found"
"""The label of a list of files that were searched for."""
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
    if labels & {FETCHED, DECODED}:
        call.state.files[_unpack_folder(call)] = ShellStream(None, labels & {FETCHED, DECODED} | {FETCHED})


def _unpack_folder(call: ProgramCall) -> str:
    """Return the folder into which an archive is unpacked."""
    for at, word in enumerate(call.words):
        text = word.text
        if text in ("-C", "-d", "--directory", "--one-top-level") and at + 1 < len(call.words):
            return call.resolve_path(call.words[at + 1])
        for option in ("--directory=", "-C", "-o"):
            if text.startswith(option) and len(text) > len(option) and text[0] == "-":
                return call.resolve_path(Word(text[len(option) :]))
    return call.cwd


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
    if REGENERABLE in out.labels and call.name not in ("find", "gfind"):
        out = ShellStream(out.text, out.labels - {REGENERABLE})
    if call.name not in _FINDERS or out.text is not None:
        return out
    paths = [call.resolve_path(word) for word in call.words[:40] if word.text[:1] != "-"] or [call.cwd]
    keyed = is_key_listing(call.name, call.args, paths, call.host.places)
    return ShellStream(None, out.labels | {SEARCH_RESULT, KEYED} if keyed else out.labels | {SEARCH_RESULT})


def judge_given_names(call: ProgramCall) -> None:
    """Judge the words a program is given: deleting search results, and replacing files by nothing."""
    if call.name in _DELETERS and any(
        word.dynamic and SEARCH_RESULT in word.labels and not is_lossless_delete(call, word) for word in call.words
    ):
        call.ask("deletes-given", "it deletes everything that it is given")
    if call.name in ("tee", "sponge") and call.fed and call.stdin.text in ("", "\n") and "-a" not in call.args:
        for word in call.parse_options().operands:
            judge_stored_output(call.host, call.resolve_path(word), ">", call.stdin, call.state)
