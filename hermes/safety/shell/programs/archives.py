"""Archives and copies between machines: what is packed, unpacked, sent, fetched and started on the way."""

import re
from collections.abc import Sequence

from hermes.i18n.messages import N_
from hermes.safety.shell.call import CommandOptions, ProgramCall, Rule, is_root_like_path
from hermes.safety.shell.findings import EffectKind
from hermes.safety.shell.words import NO_LABELS, Label, ShellStream, Word, word_set

_STARTING = str.split(
    "to-command checkpoint-action use-compress-program compress-program info-script new-volume-script rsh-command "
    "unzip-command"
)
_NAMED = (
    "to-command checkpoint-action use-compress-program compress-program directory file info-script rsh-command "
    "transform exclude files-from"
)
_PACKING = ("use-compress-program", "compress-program")


def archived(call: ProgramCall) -> ShellStream | None:
    """tar, bsdtar, cpio, unzip, 7z, zip."""
    options = _archive_options(call)
    _told(call, options)
    for word in options.option_values("C", "directory", "d") if call.name != "zip" else []:
        if not call.judge_write(call.resolve_path(word), how="unpacks into") and call.resolve_path(word) == "/":
            call.ask("protected-path", "it unpacks over the system")
    if options.has_option("remove-files") or (call.name == "zip" and options.has_option("m", "move")):
        call.ask("mv-away", "it deletes what it packs")
    if call.name == "tar" and options.has_option("P", "absolute-names") and options.has_option("x", "extract"):
        call.ask("protected-path", "it unpacks to wherever the archive says")
    return _packed(call, options)


def _told(call: ProgramCall, options: CommandOptions) -> None:
    """The programs that an archiver starts."""
    for name in _STARTING:
        for word in options.option_values(name):
            text = word.text.removeprefix("exec=")
            if name != "checkpoint-action" or word.text.startswith("exec"):
                _started(call, text, harmless=name in _PACKING)
    for word in options.option_values("I", "F") if call.name in ("tar", "bsdtar", "gtar") else []:
        _started(call, word.text, harmless=True)


def _archive_options(call: ProgramCall) -> CommandOptions:
    words = list(call.words)
    if call.name in ("tar", "bsdtar") and words and re.fullmatch(r"[a-zA-Z]+", words[0].text):
        words[0] = Word("-" + words[0].text)
    valued = {"tar": "fCITbXgHNKLVF", "bsdtar": "fCITbX", "unzip": "dPx", "zip": "", "cpio": "DFIO"}.get(call.name, "")
    return CommandOptions(words, valued, _NAMED)


def _packed(call: ProgramCall, options: CommandOptions) -> ShellStream | None:
    labels = NO_LABELS
    if options.has_option("c", "create", "r", "append") or call.name == "zip":
        inner = call
        for word in options.option_values("C", "directory")[-1:] if call.name != "zip" else ():
            there = call.state.copy(call.state.where.change_folder(call.resolve_path(word)))
            inner = ProgramCall(call.name, call.words, there, None, call.host)
        labels = inner.judge_reads(options.operands)
        if any(is_root_like_path(inner.resolve_path(word), call.host.places) for word in options.operands):
            labels = frozenset({Label.SECRET})
    files = options.option_values("f", "file")
    if files and files[0].text != "-":
        path = call.resolve_path(files[0])
        if options.has_option("c", "create", "r", "append", "u"):
            call.judge_write(path, kind=EffectKind.OVERWRITES)
            call.state.files[path] = ShellStream(None, labels)
        return None
    return ShellStream(None, labels | call.stdin.labels)


_PACKERS = word_set("gzip bzip2 xz zstd lz4 pigz pbzip2 lzip lzma gunzip pixz zstdmt brotli ssh rsh cat")


def _started(call: ProgramCall, text: str, *, harmless: bool = False) -> None:
    words = text.split()
    if harmless and words and words[0].rpartition("/")[2] in _PACKERS:
        return
    call.ask("nested-program", "it starts another program")
    if text:
        call.judge_script(text, lost=True)


def sorted_(call: ProgramCall) -> None:
    """sort, and others with an output option and a program for packing."""
    options = call.parse_options("okSTt", "output compress-program temporary-directory key files0-from")
    for word in options.option_values("compress-program"):
        _started(call, word.text, harmless=True)
    for word in options.option_values("o", "output"):
        call.judge_write(call.resolve_path(word), kind=EffectKind.OVERWRITES)


_DELETING = word_set(
    "delete delete-after delete-before delete-excluded delete-during delete-delay delete-missing-args "
    "remove-source-files del"
)


def synced(call: ProgramCall) -> None:
    """rsync: deletes, starts a remote shell, goes to other machines."""
    options = call.parse_options(
        "efTM", "rsh rsync-path filter exclude include files-from log-file temp-dir backup-dir"
    )
    operands = options.operands
    if options.has_option(*_DELETING) and not options.has_option("n", "dry-run"):
        _sync_deletes(call, operands)
    for word in options.option_values("e", "rsh"):
        if word.text.split()[:1] not in (["ssh"], ["/usr/bin/ssh"]):
            call.ask("nested-program", "it starts another program")
        call.judge_script(word.text, lost=True)
    transferred(call, operands)


def _sync_deletes(call: ProgramCall, operands: Sequence[Word]) -> None:
    paths = [call.resolve_path(word) for word in operands[-1:]]
    call.add_effect(EffectKind.DELETES, paths)
    is_root = any(is_root_like_path(path, call.host.places) for path in paths)
    if is_root and "remove-source-files" not in " ".join(call.args):
        reason = N_("it makes {paths} identical to the other side, and deletes the rest", paths=paths[0])
        call.deny("sync-delete", reason)
    else:
        call.ask("sync-delete", "it deletes what the other side does not have")


_REMOTE = re.compile(r"[\w.@-]+:|rsync://|\w+://")


def transferred(call: ProgramCall, operands: Sequence[Word]) -> None:
    """Copies between machines: what leaves, what comes, what is written here."""
    remote = [word for word in operands if _REMOTE.match(word.text) and not word.text.startswith("/")]
    here = [word for word in operands[:-1] if word not in remote]
    if operands and operands[-1] in remote:
        _sent(call, here, _host(operands[-1].text))
        return
    if remote:
        call.add_effect(EffectKind.FETCHES, [_host(word.text) for word in remote])
    else:
        call.judge_reads(operands[:-1])
    if len(operands) > 1:
        _received(call, operands[-1], remote)


def _sent(call: ProgramCall, here: Sequence[Word], host: str) -> None:
    labels = call.judge_reads(here)
    call.add_effect(EffectKind.SENDS, [host])
    paths = [call.resolve_path(word) for word in here]
    if Label.SECRET in labels or any(is_root_like_path(path, call.host.places) for path in paths):
        call.ask("exfiltration", "it sends keys or the whole home away")


def _received(call: ProgramCall, target: Word, remote: Sequence[Word]) -> None:
    path = call.resolve_path(target)
    call.judge_write(path, kind=EffectKind.OVERWRITES)
    for source in remote:
        name = source.text.rpartition("/")[2].rpartition(":")[2]
        path_here = path if target.text not in (".", "./") else f"{path}/{name}"
        call.state.files[path_here] = ShellStream(None, frozenset({Label.FETCHED}))


def _host(text: str) -> str:
    if "://" in text:
        return text.split("://", 1)[1].split("/", maxsplit=1)[0].rpartition("@")[2]
    return text.partition(":")[0].rpartition("@")[2]


RULES: dict[str, Rule] = {
    "tar bsdtar gtar unzip zip cpio 7z 7za 7zz unrar rar ouch": archived,
    "sort": sorted_,
    "rsync": synced,
    "scp": lambda call: transferred(call, call.parse_options("cDFiJloPSX").operands),
}
