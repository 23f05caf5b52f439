"""Programs that delete, replace, move, copy and open up files."""

import re
from collections.abc import Iterator, Sequence

from hermes.i18n.messages import N_
from hermes.safety.shell import dataflow
from hermes.safety.shell.call import (
    CommandOptions,
    ProgramCall,
    Rule,
    is_in_workspace,
    is_root_like_path,
    is_temporary,
    is_under,
    resolve_path,
)
from hermes.safety.shell.findings import MADE_HERE, EffectKind
from hermes.safety.shell.programs import disks, windows
from hermes.safety.shell.regenerable import is_lossless_delete, is_regenerable_here, is_regenerable_path
from hermes.safety.shell.words import NO_LABELS, UNKNOWN_STREAM, Label, ShellStream, Word, word_set

DANGEROUS = word_set(
    "rm dd mkfs shred shutdown reboot bash sh dash curl wget nc python3 perl chmod chown mv cp tee kill find "
    "sudo su cat zsh"
)

_WORLD = re.compile(
    r"0*[0-7]?[0-7][0-7][2367]$|[ugoa]*[oa][ugoa]*[+=][rwxXst]*w|[+=][rwxX]*w[rwxX]*$|[ugoa]*[+=][rwxX]*s|"
    r"0*[4-7][0-7]{3}$"
)


_WHOLE = frozenset({"rimraf", "del-cli"})
"""Programs that delete folders with all that is in them without being told so."""


def _list_other_names(call: ProgramCall, words: Sequence[Word]) -> Iterator[str]:
    """Yield what words name in each folder that the line has been in, where it goes on after a failed `cd`."""
    where = call.state.where
    for folder in () if where.is_chained else where.visited:
        yield from (resolve_path(word.text, folder, call.host.places) for word in words)


def remove(call: ProgramCall) -> None:
    """rm, srm, rmdir, unlink, del."""
    if call.name in ("del", "rmdir", "rd") and windows.deleted(call):
        return
    options = call.parse_options()
    recursive = call.name in _WHOLE or (call.name != "unlink" and options.has_option("r", "R", "recursive"))
    paths = [call.resolve_path(word) for word in options.operands]
    call.add_effect(EffectKind.DELETES, dict.fromkeys((*paths, *_list_other_names(call, options.operands))))
    if recursive and _loses_root(call, options.operands, paths):
        return
    for word, path in zip(options.operands, paths, strict=True):
        _removed(call, word, path, recursive=recursive)
    if recursive and not all(is_lossless_delete(call, word) for word in options.operands):
        call.ask(
            "rm-recursive", "it deletes folders with all that is in them", contained=_replaceable(call, options, paths)
        )


_ANY_TOP = re.compile(r"^/(\[[^\]]{1,40}\]|[*?.]|\{[^}]{1,80}\})+\*?(/\*)*$")
"""Wildcards that stand for every folder at the top."""


def _loses_root(call: ProgramCall, words: Sequence[Word], paths: Sequence[str]) -> bool:
    for word, path in zip(words, paths, strict=True):
        bare = re.sub(r"\$\{\w+\}", "", word.text)
        nothing_before = word.dynamic and bare != word.text and bare in ("/", "/*", "/.", "/./*")
        if is_root_like_path(path, call.host.places) or nothing_before or _ANY_TOP.match(path) or disks.vital(path):
            call.deny("rm-root", N_("it deletes {path}", path=path))
            return True
    return False


def _removed(call: ProgramCall, word: Word, path: str, *, recursive: bool) -> None:
    if word.dynamic and Label.EVERYTHING in word.labels:
        call.deny("find-delete", "it deletes everything that it is given")
        return
    if disks.vital(path):
        call.add_effect(EffectKind.DELETES, (path,))
        call.deny("rm-root", N_("it deletes {path}, on which the system stands", path=path))
        return
    if not judge_deleted(call, path) and not recursive:
        _removed_file(call, word, path)


def _removed_file(call: ProgramCall, word: Word, path: str) -> None:
    """Judge files being deleted one by one, where nothing protects them."""
    if is_lossless_delete(call, word):
        return
    if re.search(r"(^|/)(\*|\.\*|\*\.\*|\{\*,\.\*\})$", word.text):
        call.ask("rm-all", "it deletes every file of a folder")
    elif not _own(call, path) and path.startswith("/"):
        call.ask("rm-outside", N_("it deletes {path}, outside the session's folder", path=path), contained=True)


def _own(call: ProgramCall, path: str) -> bool:
    """Whether a path is the session's, a temporary one, or below where the command runs."""
    return is_in_workspace(path, call.host.places) or is_temporary(path) or is_under(path, call.cwd)


def judge_deleted(call: ProgramCall, path: str) -> bool:
    """Judge one path being deleted; whether something was said."""
    return call.judge_write(path, how="deletes", kind=EffectKind.DELETES, noted=True)


def _replaceable(call: ProgramCall, options: CommandOptions, paths: Sequence[str]) -> bool:
    places = call.host.places
    if any(word.dynamic for word in options.operands) or any("/.git" in path for path in paths):
        return False
    return all(
        (not is_under(path, places.workspace) and not is_under(places.workspace, path))
        or is_regenerable_here(call, path)
        for path in paths
    )


_NARROWER = re.compile(r"0?[4-7]00$|g?o?[go]-|a?-")
_WIDER = re.compile(r"[ugoa]*[go][ugoa]*[=+]u|g=u|o=[ug]|a=u")
"""Modes that give others what the owner has."""


def permissions(call: ProgramCall) -> None:
    """chmod, chown, chgrp, setfacl."""
    options = CommandOptions([word for word in call.words if not re.fullmatch(r"-[rwxXst]+", word.text)])
    operands = options.operands
    kind = EffectKind.ESCALATES if call.name != "chmod" else EffectKind.WRITES
    call.add_effect(kind, [call.resolve_path(word) for word in operands[1:]])
    recursive = options.has_option("R", "recursive")
    mode = operands[0].text if operands else ""
    targets = operands if options.has_option("reference") else operands[1:]
    if recursive and any(is_root_like_path(call.resolve_path(word), call.host.places) for word in targets):
        call.deny("permissions-root", "it changes owner or rights of the whole system or home")
        return
    if call.name != "chmod" or not _mode(call, mode, targets, recursive):
        _rights_of(call, mode, targets)


def _mode(call: ProgramCall, mode: str, targets: Sequence[Word], recursive: bool) -> bool:
    parts = mode.split(",")
    outside = all(not is_in_workspace(call.resolve_path(word), call.host.places) for word in targets)
    if any(_WORLD.match(part) for part in parts):
        call.ask("chmod-open", "it lets everybody write, or run as the owner", contained=outside)
    elif any(_WIDER.match(part) for part in parts) and (outside or recursive):
        call.ask("chmod-open", "it gives others the rights of the owner", contained=outside)
    else:
        return False
    return True


def _rights_of(call: ProgramCall, mode: str, targets: Sequence[Word]) -> None:
    if call.name == "chmod" and _NARROWER.match(mode):
        return
    for word in targets:
        if word.text.startswith(("/", "~", "..")) or "/.git" in word.text:
            call.judge_write(call.resolve_path(word), how="changes the rights of")


def attributes(call: ProgramCall) -> None:
    """chattr, chflags."""
    if any(re.match(r"[-+=]\w*[ia]|no[su]chg|[su]chg|[su]appnd|no[su]appnd", text) for text in call.args):
        call.ask("permissions", "it changes what protects files")


_EXAMPLE = re.compile(r"\.(example|sample|template|dist|tmpl)$|(example|sample|template|dist)\.\w+$")


def copied(call: ProgramCall) -> None:
    """cp, mv, ln, install: what goes where."""
    options = call.parse_options("tSmgo", "target-directory suffix mode owner group")
    if call.name == "install" and options.has_option("d", "directory"):
        for word in options.operands:
            call.judge_write(call.resolve_path(word))
        return
    sources, targets = _ends(call, options)
    if call.name == "cp" and options.has_option("n", "no-clobber") and _fills_in(call, sources, targets):
        return
    _moved(call, sources, targets)
    _placed(call, options, sources, targets)


def _ends(call: ProgramCall, options: CommandOptions) -> tuple[list[Word], list[Word]]:
    """What is copied, and where it goes."""
    operands = options.operands
    if given := options.option_values("t", "target-directory"):
        return operands, given
    return operands[:-1], operands[-1:] if len(operands) > 1 or call.name == "ln" else []


_MOVING = frozenset({"mv", "gmv", "ln"})


def _placed(call: ProgramCall, options: CommandOptions, sources: Sequence[Word], targets: Sequence[Word]) -> None:
    """Judge what is read, and each place where it is put."""
    symbolic = call.name == "ln" and options.has_option("s", "symbolic")
    labels = call.judge_reads(sources) if not symbolic else _linked(call, sources)
    if call.name == "install" and any(
        re.match(r"0?[4-7]\d{3}|.*s", mode.text) for mode in options.option_values("m", "mode")
    ):
        call.ask("chmod-open", "it lets everybody run a program as its owner")
    if call.name == "ln" and not symbolic and not sources:
        return
    for word in targets:
        _replaced(call, word, sources, labels, forced=options.has_option("f", "force"))
        if symbolic and len(sources) == 1:
            _aliased(call, word, sources[0])


def _linked(call: ProgramCall, sources: Sequence[Word]) -> frozenset[str]:
    """A link to what is protected makes it reachable by another name."""
    if not any(map(call.secret_reason, sources)):
        return NO_LABELS
    call.ask("reads-secret", "it makes another name for what holds keys")
    return frozenset({Label.SECRET})


def _fills_in(call: ProgramCall, sources: Sequence[Word], targets: Sequence[Word]) -> bool:
    """Whether a project's settings are only made out of their example, where there are none."""
    paths = [call.resolve_path(word) for word in targets]
    return all(_EXAMPLE.search(word.text) for word in sources) and all(
        is_in_workspace(path, call.host.places) and "/.git/" not in path and path.rpartition("/")[2].startswith(".env")
        for path in paths
    )


def _replaced(call: ProgramCall, word: Word, sources: Sequence[Word], labels: frozenset[str], *, forced: bool) -> None:
    path = call.resolve_path(word)
    said = call.judge_write(path, how="replaces", kind=EffectKind.OVERWRITES)
    if not said and forced and call.name in ("mv", "cp") and _kept_elsewhere(call, path):
        call.ask("mv-away", N_("it replaces {path}, outside the session's folder, without asking", path=path))
    if sources and "/" in sources[0].text and sources[0].text.rpartition("/")[2] in DANGEROUS:
        # Another name for a program that has rules: running it is running that.
        call.state.files[path] = ShellStream(f'{sources[0].text} "$@"\n')
    elif len(sources) == 1:
        held = dataflow.file_content(call, sources[0])
        stream = ShellStream(held.text, held.labels | labels)
        if held.text is not None or stream.labels or call.name == "mv":
            call.state.files[path] = stream
            call.state.files[f"{path}/{sources[0].text.rpartition('/')[2]}"] = stream


def _kept_elsewhere(call: ProgramCall, path: str) -> bool:
    """Whether a path is a file that is kept outside: by its ending, and by its place."""
    return not _own(call, path) and "." in path.rpartition("/")[2].lstrip(".") and path not in call.state.files


_SYSTEM = re.compile(r"(?!/etc/localtime|/etc/alternatives)/(etc|boot|lib|proc|sys)(/|$)")
"""Folders of the system, without the links that are made to be changed."""


def _aliased(call: ProgramCall, word: Word, source: Word) -> None:
    """A link to a disk, to the system or to a home: what is done to it is done to that."""
    whole = source.text.startswith(("/", "~", "$"))
    path = call.resolve_path(source if whole else Word(f"{word.text}/../{source.text}"))
    if disks.is_disk(path):
        call.ask("raw-disk", "it makes another device file", effect=EffectKind.ESCALATES, targets=(path,))
    elif _SYSTEM.match(path):
        call.ask("protected-path", N_("it makes another name for {path}, which belongs to the system", path=path))


def _moved(call: ProgramCall, sources: Sequence[Word], targets: Sequence[Word]) -> None:
    paths = [call.resolve_path(word) for word in sources]
    # No build made what comes to lie there, though the name may say so.
    if call.name in _MOVING and not all(is_regenerable_path(path, call.host.places) for path in paths):
        call.state.moved.update(call.resolve_path(word) for word in targets)
    if call.name == "mv":
        call.add_effect(EffectKind.DELETES, paths)
        for path in paths:
            _away(call, path)
    _emptied(call, paths, [call.resolve_path(word) for word in targets])


def _emptied(call: ProgramCall, paths: Sequence[str], into: Sequence[str]) -> None:
    """Judge what is put over files: nothing, or what has no end."""
    emptied = "/dev/null" in paths and not all(map(_PASSING.search, into))
    if any(map(dataflow.is_endless_file, paths)) and not all(path.startswith("/dev/") for path in into):
        call.ask("fills", "it fills the disk", effect=EffectKind.EXHAUSTS, targets=into)
    if emptied and any(map(disks.vital, into)):
        call.deny("rm-root", "it empties what the system stands on")
    elif emptied or (call.name == "mv" and "/dev/null" in into):
        call.ask("emptied", "it empties a file, or moves one to /dev/null")


def _away(call: ProgramCall, path: str) -> None:
    if is_root_like_path(path, call.host.places) or disks.vital(path) or _ANY_TOP.match(path):
        call.deny("mv-away", N_("it moves {path} away, on which the system or the person's work stands", path=path))
    elif path.endswith("/.git") or path == call.host.places.workspace:
        call.ask("mv-away", "it moves away what other things depend on")
    elif not judge_deleted(call, path) and _DOCUMENTS.match(path.removeprefix(call.host.places.home)):
        call.ask("mv-away", "it moves away what the person keeps")


_DOCUMENTS = re.compile(
    r"/(Documents|Pictures|Desktop|Music|Videos|Library|Mail|Projects|Work|work|projects|src|Dropbox)/?\*?$"
)


def written(call: ProgramCall) -> ShellStream | None:
    """tee, touch, sponge: every operand is written."""
    options = call.parse_options()
    appends = call.name == "touch" or options.has_option("a", "append")
    given = call.stdin if call.fed else ShellStream("")
    for word in options.operands:
        path = call.resolve_path(word)
        if path == "/proc/sysrq-trigger":
            call.deny("power", "it stops the machine, or changes how it runs")
        elif disks.is_disk(path):
            disks.refused(call, [path])
        elif not appends and given.text in ("", "\n") and disks.vital(path):
            call.deny("rm-root", N_("it empties {path}, on which the system stands", path=path))
        else:
            _stored(call, path, given, appends=appends)
        call.state.files[path] = given
    return given


def _stored(call: ProgramCall, path: str, given: ShellStream, *, appends: bool) -> None:
    said = call.judge_write(path, kind=EffectKind.WRITES if appends else EffectKind.OVERWRITES)
    emptied = call.fed and given.text in ("", "\n") and not appends and path not in call.state.files
    if emptied and not said and not _PASSING.search(path):
        call.ask("emptied", N_("it empties {path}", path=path))
    elif Label.ENDLESS in given.labels and call.name != "touch":
        call.ask("fills", "it fills the disk")


_PASSING = re.compile(r"^(/tmp|/var/tmp|/dev|/proc|/sys)/|\.(log|tmp|lock|pid|out|err)$|/\.?(gitkeep|keep|nojekyll)$")


def temporary_made(call: ProgramCall) -> ShellStream:
    """mktemp: a file or folder of this line's own, of which only the place is known."""
    options = call.parse_options("p", "suffix")
    if options.has_option("u", "dry-run") or any(word.dynamic for word in call.words):
        return UNKNOWN_STREAM
    template = options.operands[0].text if options.operands else ""
    given = options.option_values("p", "tmpdir")
    if "/" in template:
        folder = call.resolve_path(Word(template)).rpartition("/")[0]
    elif given:
        folder = call.resolve_path(given[-1])
    else:
        own = call.state.variables.get("TMPDIR", Word("/tmp"))  # noqa: S108 - where it is made
        folder = call.cwd if template and not options.has_option("t", "tmpdir") else own.text or "/tmp"  # noqa: S108
    return ShellStream(f"{folder}/{MADE_HERE}\n")


def desktop(call: ProgramCall) -> None:
    """gio, gvfs-rm, kioclient: the files of a desktop, by verbs. What goes to the trash can be had back."""
    named = call.name.startswith("gvfs-")
    verb = call.name[5:] if named else "".join(call.args[:1])
    if verb in ("remove", "rm", "del"):
        words = call.words if named else call.words[1:]
        rest = [Word(one.text.removeprefix("file://"), one.dynamic, one.quoted, one.labels) for one in words]
        deep = [Word("-r")] if call.name.startswith("kio") else []
        remove(ProgramCall("rm", [*deep, *rest], call.state, call.piped_input(), call.host))


def truncated(call: ProgramCall) -> None:
    """truncate."""
    options = call.parse_options("sro", "size reference")
    sizes = [word.text for word in options.option_values("s", "size")]
    paths = [call.resolve_path(word) for word in options.operands]
    if any(map(disks.vital, paths)):
        call.deny("rm-root", "it empties what the system stands on")
    for path in paths:
        call.judge_write(path, how="cuts off", kind=EffectKind.OVERWRITES)
    if any(re.match(r"[-<]|0+[a-zA-Z]*$", text) for text in sizes):
        call.ask("emptied", "it cuts files off")


def edited(call: ProgramCall) -> ShellStream | None:
    """sed: a script, and files; `-i` writes them, `w` writes another, `e` runs a command."""
    options = call.parse_options("efl", "expression file line-length")
    scripts = [word.text for word in options.option_values("e", "expression")]
    operands = options.operands
    if not scripts and not options.option_values("f", "file") and operands:
        scripts, operands = [operands[0].text], operands[1:]
    for word in options.option_values("f", "file"):
        call.add_effect(EffectKind.RUNS, (call.resolve_path(word),))
        held = dataflow.file_content(call, word)
        scripts += [held.text] if held.text is not None else []
    for text in scripts:
        _sed_script(call, text)
    for word in operands if options.has_option("i", "in-place") else ():
        said = call.judge_write(call.resolve_path(word), kind=EffectKind.OVERWRITES)
        if not said and any(map(_SED_EMPTIES.fullmatch, scripts)):
            call.ask("emptied", "it deletes what files hold")
    return None


_SED_EMPTIES = re.compile(r"\s*(1,\$|\d*,?\$?)?\s*d\s*|/(?!\^\$/)\^?\.?\*?\$?/d|s/\.\*//g?")


def _sed_script(call: ProgramCall, text: str) -> None:
    if (re.search(r"(^|[;}\n]|\d|\$|/)\s*e(\s+\S|\s*$)", text) and not re.match(r"\s*/", text)) or re.search(
        r"^s(.)(?:(?!\1).){0,300}\1(?:(?!\1).){0,300}\1[gpiIm0-9]*e", text
    ):
        call.ask("nested-program", "a sed script starts commands")
    for found in re.finditer(r"(?:^|[;}\n/])[gpI0-9]*w\s+(\S+)", text[:4096]):
        call.judge_write(call.resolve_path(Word(found[1])))


RULES: dict[str, Rule] = {
    "rm rmdir unlink del trash rimraf trash-put grm rip gio-trash": remove,
    "chattr chflags": attributes,
    "chmod chown chgrp setfacl": permissions,
    "cp mv ln install gcp gmv": copied,
    "tee touch sponge": written,
    "gio gvfs-rm gvfs-move gvfs-copy kioclient kioclient5 kioclient6": desktop,
    "mktemp": temporary_made,
    "truncate": truncated,
    "sed": edited,
    "gsed": edited,
}
