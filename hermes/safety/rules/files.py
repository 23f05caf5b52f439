"""Programs that delete, replace, move, copy and open up files."""

import re
from collections.abc import Callable, Sequence

from hermes.safety import flow
from hermes.safety.call import BLOCK_DEVICE, Call, Options, inside, resolve, root_like, temporary, under
from hermes.safety.findings import EffectKind
from hermes.safety.words import FETCHED, NONE, SECRET, Stream, Word
from hermes.safety.words import words as word_set

Rule = Callable[[Call], Stream | None]
DANGEROUS = word_set(
    "rm dd mkfs shred shutdown reboot bash sh dash curl wget nc python3 perl chmod chown mv cp tee kill find "
    "sudo su cat zsh"
)

_WORLD = re.compile(
    r"0*[0-7]?[0-7][0-7][2367]$|[ugoa]*[oa][ugoa]*[+=][rwxXst]*w|[+=][rwxX]*w[rwxX]*$|[ugoa]*[+=][rwxX]*s|"
    r"0*[4-7][0-7]{3}$"
)
_MADE = re.compile(
    r"/(build|builds|dist|out|target|node_modules|__pycache__|coverage|htmlcov|\.(venv|tox|nox|cache|"
    r"pytest_cache|mypy_cache|"
    r"ruff_cache|next|nuxt|parcel-cache|gradle|eggs|turbo|coverage)|venv|env|tmp|temp|_build|site|public|bin|"
    r"obj|logs?|[\w.*-]+\.egg-info|"
    r"[\w.*-]+\.(o|pyc|log|tmp|bak|orig|class|out))(/|$)"
)
_DATA = re.compile(r"\.(db|sqlite3?|sql|dump|mdb|rdb|bak|csv|parquet|img|qcow2|vmdk)$", re.IGNORECASE)


def remove(call: Call) -> None:
    """rm, srm, rmdir, unlink, del."""
    options = call.options()
    recursive = call.name != "unlink" and options.has("r", "R", "recursive")
    paths = [call.path(word) for word in options.operands]
    call.effect(EffectKind.DELETES, paths)
    if recursive and _loses_root(call, options.operands, paths):
        return
    for word, path in zip(options.operands, paths, strict=True):
        _removed(call, word, path, recursive=recursive)
    if recursive and options.operands:
        call.ask(
            "rm-recursive", "it deletes folders with all that is in them", contained=_replaceable(call, options, paths)
        )


def _loses_root(call: Call, words: Sequence[Word], paths: Sequence[str]) -> bool:
    for word, path in zip(words, paths, strict=True):
        bare = re.sub(r"\$\{\w+\}", "", word.text)
        if root_like(path, call.host.places) or (
            word.dynamic and bare != word.text and bare in ("/", "/*", "/.", "/./*")
        ):
            call.deny("rm-root", f"it deletes {path}")
            return True
    return False


def _removed(call: Call, word: Word, path: str, *, recursive: bool) -> None:
    if judge_deleted(call, path):
        return
    places = call.host.places
    if not recursive and re.search(r"(^|/)(\*|\.\*|\*\.\*|\{\*,\.\*\})$", word.text):
        call.ask("rm-all", "it deletes every file of a folder")
    elif not (recursive or inside(path, places) or temporary(path) or under(path, call.cwd)) and path.startswith("/"):
        call.ask("rm-outside", f"it deletes {path}, outside the session's folder", contained=True)
    elif not recursive and _DATA.search(path) and not temporary(path) and word.text.startswith("/"):
        call.ask("rm-outside", f"it deletes {path}")


def judge_deleted(call: Call, path: str) -> bool:
    """Judge one path being deleted; whether something was said."""
    return call.writes(path, how="deletes", kind=EffectKind.DELETES, noted=True)


def _replaceable(call: Call, options: Options, paths: Sequence[str]) -> bool:
    places = call.host.places
    if any(word.dynamic for word in options.operands):
        return False
    return all(
        (not under(path, places.workspace) and not under(places.workspace, path))
        or bool(_MADE.search(path[len(places.workspace) :]))
        for path in paths
    ) and not any("/.git" in path for path in paths)


def permissions(call: Call) -> None:
    """chmod, chown, chgrp, setfacl."""
    options = Options([word for word in call.words if not re.fullmatch(r"-[rwxXst]+", word.text)])
    operands = options.operands
    call.effect(
        EffectKind.ESCALATES if call.name != "chmod" else EffectKind.WRITES, [call.path(word) for word in operands[1:]]
    )
    recursive = options.has("R", "recursive")
    mode = operands[0].text if operands else ""
    targets = operands if options.has("reference") else operands[1:]
    if recursive and any(root_like(call.path(word), call.host.places) for word in targets):
        call.deny("permissions-root", "it changes owner or rights of the whole system or home")
    elif call.name == "chmod" and any(_WORLD.match(part) for part in mode.split(",")):
        call.ask("chmod-open", "it lets everybody write, or run as the owner", contained=_outside(call, targets))
    elif call.name == "chmod" and recursive and re.match(r"0*[0-3]?0{2,3}$|a?-[rwx]+", mode):
        call.ask("chmod-open", "it takes the rights to whole folders away", contained=_outside(call, targets))
    elif call.name in ("chown", "chgrp") and recursive:
        call.ask("chown-recursive", "it changes the owner of whole folders")
    elif call.name in ("chown", "chgrp") and re.match(r"root\b|0\b", mode):
        call.ask("chown-recursive", "it gives files to root")
    elif call.name == "setfacl" and any(re.search(r"(^|,)(o|u):\w*:[rx-]*w", text) for text in call.args):
        call.ask("chmod-open", "it lets others write")
    else:
        for word in targets:
            if word.text.startswith(("/", "~", "..")) or "/.git" in word.text:
                path = call.path(word)
                if not (call.name == "chmod" and re.match(r"0?[4-7]00$|g?o?[go]-|a?-", mode)):
                    call.writes(path, how="changes the rights of")


def attributes(call: Call) -> None:
    """chattr."""
    if any(re.match(r"[-+=]\w*[ia]", text) for text in call.args):
        call.ask("permissions", "it changes what protects files")


def _outside(call: Call, words: Sequence[Word]) -> bool:
    return all(not inside(call.path(word), call.host.places) for word in words)


def disk(call: Call) -> None:
    """mkfs, wipefs, parted ...: what makes a disk another one."""
    options = call.options()
    if (
        options.has("list", "print", "version", "help", "dump", "json")
        or "print" in call.args
        or "luksDump" in call.args
    ):
        return
    if call.name in ("fdisk", "sfdisk", "parted", "sgdisk", "gdisk") and options.has("l", "d", "p"):
        return
    if call.name == "cryptsetup" and (call.args[:1] or [""])[0] in ("status", "isLuks", "benchmark", "luksDump"):
        return
    if call.name == "wipefs" and not options.has("a", "all", "o", "offset"):
        return
    paths = [call.path(Word(word.text.rpartition("=")[2])) for word in call.words]
    devices = [path for path in paths if path.startswith("/dev/")]
    if devices:
        call.effect(EffectKind.OVERWRITES, devices)
        call.deny("raw-disk", "it overwrites a disk")
    elif any(word.dynamic for word in call.words):
        call.ask("raw-disk", "it may overwrite a disk")
    elif options.operands and call.name in ("cfdisk", "blkdiscard", "cryptsetup"):
        call.ask("raw-disk", "it changes a disk")


def copy_raw(call: Call) -> Stream | None:
    """dd."""
    values = {name: Word(value) for name, _, value in (text.partition("=") for text in call.args)}
    source = values.get("if")
    labels = call.reads([source]) if source is not None else NONE
    if "of" not in values:
        return Stream(None, labels | call.stdin.labels)
    target = call.path(values["of"])
    if target.startswith("/dev/") and not BLOCK_DEVICE.match(target):
        return None
    if BLOCK_DEVICE.match(target):
        call.effect(EffectKind.OVERWRITES, (target,))
        call.deny("raw-disk", "it overwrites a disk")
        return None
    said = call.writes(target, how="overwrites", kind=EffectKind.OVERWRITES)
    if said:
        return None
    endless = source is not None and flow.fills(source.text)
    if source is not None and source.text == "/dev/null":
        call.ask("emptied", "it empties a file")
    elif endless and _size(values) > 8 << 30:
        call.effect(EffectKind.EXHAUSTS, (target,))
        call.ask("fills", "it fills the disk")
    elif endless and (
        "notrunc" in values.get("conv", Word("")).text or (_DATA.search(target) and not target.endswith(".img"))
    ):
        call.ask("dd", "it overwrites a file block by block")
    elif target.startswith("/") and not (inside(target, call.host.places) or temporary(target)):
        call.ask("dd", "it overwrites a file block by block", contained=True)
    call.state.files[target] = Stream(None, labels)
    return None


_UNITS = {"": 1, "c": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def size_of(text: str) -> int:
    """`10G` in bytes; 0 when it is none."""
    found = re.match(r"(\d{1,15})\s*([KMGTkmgtc]?)", text)
    return int(found[1]) * _UNITS[found[2].upper() if found[2] != "c" else "c"] if found else 0


def _size(values: dict[str, Word]) -> int:
    if "count" not in values:
        return 1 << 60
    return size_of(values["count"].text) * (size_of(values["bs"].text) if "bs" in values else 512)


def copied(call: Call) -> None:
    """cp, mv, ln, install, scp and rsync use it: what goes where."""
    options = call.options(
        "tSm" if call.name in ("cp", "mv", "ln", "install") else "", word_set("target-directory suffix mode")
    )
    given = options.all("t", "target-directory")
    operands = options.operands
    if call.name == "install" and options.has("d", "directory"):
        for word in operands:
            call.writes(call.path(word))
        return
    targets = given or operands[-1:] if len(operands) > 1 or given or call.name == "ln" else []
    sources = operands if given else operands[:-1]
    _moved(call, sources, targets)
    labels = call.reads(sources) if call.name != "ln" or not options.has("s", "symbolic") else _linked(call, sources)
    modes = options.all("m", "mode")
    if call.name == "install" and any(re.match(r"0?[4-7]\d{3}|.*s", mode.text) for mode in modes):
        call.ask("chmod-open", "it lets everybody run a program as its owner")
    if call.name == "ln" and not options.has("s", "symbolic") and len(sources) == 0:
        return
    for word in targets:
        path = call.path(word)
        call.writes(path, how="replaces", kind=EffectKind.OVERWRITES)
        if sources and "/" in sources[0].text and sources[0].text.rpartition("/")[2] in DANGEROUS:
            # Another name for a program that has rules: running it is running that.
            call.state.files[path] = Stream(f'{sources[0].text} "$@"\n')
            continue
        if len(sources) == 1:
            held = flow.looked_up(call, sources[0])
            stream = Stream(held.text, held.labels | labels)
            if held.text is not None or stream.labels or call.name == "mv":
                call.state.files[path] = stream
                call.state.files[f"{path}/{sources[0].text.rpartition('/')[2]}"] = stream


def _linked(call: Call, sources: Sequence[Word]) -> frozenset[str]:
    """A link to what is protected makes it reachable by another name."""
    if any(call.secret(word) for word in sources):
        call.ask("reads-secret", "it makes another name for what holds keys")
        return frozenset({SECRET})
    return NONE


def _moved(call: Call, sources: Sequence[Word], targets: Sequence[Word]) -> None:
    paths = [call.path(word) for word in sources]
    if call.name == "mv":
        call.effect(EffectKind.DELETES, paths)
        for path in paths:
            if root_like(path, call.host.places) or path.endswith("/.git") or path == call.host.places.workspace:
                call.ask("mv-away", "it moves away what other things depend on")
            else:
                judge_deleted(call, path)
    emptied = "/dev/null" in paths and call.name != "install"
    if emptied or (call.name == "mv" and any(call.path(word) == "/dev/null" for word in targets)):
        call.ask("emptied", "it replaces a file by nothing, or moves one into nothing")


def written(call: Call) -> Stream | None:
    """tee, touch, sponge: every operand is written."""
    options = call.options()
    appends = call.name == "touch" or options.has("a", "append")
    for word in options.operands:
        path = call.path(word)
        call.writes(path, kind=EffectKind.WRITES if appends else EffectKind.OVERWRITES)
        call.state.files[path] = call.stdin if call.fed else Stream("")
    return call.stdin if call.fed else Stream("")


def truncated(call: Call) -> None:
    """truncate."""
    options = call.options("sro", word_set("size reference"))
    sizes = [word.text for word in options.all("s", "size")]
    for word in options.operands:
        call.writes(call.path(word), how="cuts off", kind=EffectKind.OVERWRITES)
    if any(size_of(text.lstrip("+%/<>-")) > 8 << 30 for text in sizes):
        call.ask("fills", "it fills the disk")
    elif any(re.match(r"[-<]|0+[a-zA-Z]*$", text) for text in sizes):
        call.ask("emptied", "it cuts files off")


def shredded(call: Call) -> None:
    """shred, wipe, scrub: nothing brings that back."""
    paths = [call.path(word) for word in call.options("nsw").operands]
    call.effect(EffectKind.DELETES, paths)
    if any(BLOCK_DEVICE.match(path) for path in paths):
        call.deny("raw-disk", "it overwrites a disk")
    elif call.words and not call.options().has("help", "version"):
        call.ask("shred", "it destroys files for good")


def edited(call: Call) -> Stream | None:
    """sed: a script, and files; `-i` writes them, `w` writes another, `e` runs a command."""
    options = call.options("efl", word_set("expression file line-length"))
    scripts = [word.text for word in options.all("e", "expression")]
    operands = options.operands
    if not scripts and not options.all("f", "file") and operands:
        scripts, operands = [operands[0].text], operands[1:]
    for word in options.all("f", "file"):
        call.effect(EffectKind.RUNS, (call.path(word),))
        held = flow.looked_up(call, word)
        scripts += [held.text] if held.text is not None else []
    for text in scripts:
        _sed_script(call, text)
    if options.has("i", "in-place"):
        for word in operands:
            path = call.path(word)
            said = call.writes(path, kind=EffectKind.OVERWRITES)
            if not said and any(
                re.fullmatch(r"\s*(1,\$|\d*,?\$?)?\s*d\s*|/\^?\.?\*?\$?/d|s/\.\*//g?", text) for text in scripts
            ):
                call.ask("emptied", "it deletes what files hold")
    return None


def _sed_script(call: Call, text: str) -> None:
    if (re.search(r"(^|[;}\n]|\d|\$|/)\s*e(\s+\S|\s*$)", text) and not re.match(r"\s*/", text)) or re.search(
        r"^s(.)(?:(?!\1).){0,300}\1(?:(?!\1).){0,300}\1[gpiIm0-9]*e", text
    ):
        call.ask("nested-program", "a sed script starts commands")
    for found in re.finditer(r"(?:^|[;}\n/])[gpI0-9]*w\s+(\S+)", text[:4096]):
        call.writes(call.path(Word(found[1])))


def found(call: Call) -> None:
    """find, fd: what it starts is followed; what it deletes asks."""
    args = call.args
    starts: list[str] = []
    for text in args:
        if text.startswith(("-", "(", "!")) and text not in ("-L", "-H", "-P"):
            break
        if not text.startswith("-"):
            starts.append(text)
    if call.name != "find":
        starts = [word.text for word in call.options().operands[1:]]
    roots = [resolve(text, call.cwd, call.host.places) for text in starts] or [call.cwd]
    deep = any(root_like(path, call.host.places) for path in roots)
    narrowed = any(
        re.match(r"-(i?name|i?path|i?regex|[mca]time|[mca]min|newer\w*|size|empty|user)$", text) for text in args
    )
    if "-delete" in args:
        call.effect(EffectKind.DELETES, roots)
        if deep and not narrowed:
            call.deny("find-delete", "it deletes every file that it finds")
        else:
            call.ask("find-delete", "it deletes every file that it finds")
    starts_at = [at for at, text in enumerate(args) if text in _EXEC]
    if len(starts_at) > 20:
        call.ask("nested-program", "it starts too many programs to be judged")
        return
    for at, text in enumerate(args):
        if text in ("-fprint", "-fprintf", "-fls", "-fprint0") and at + 1 < len(args):
            call.writes(call.path(call.words[at + 1]), kind=EffectKind.OVERWRITES)
        if text in _EXEC:
            _started_on_found(call, at, roots, deep=deep and not narrowed)


_EXEC = word_set("-exec -execdir -ok -okdir -x -X --exec --exec-batch")
_DELETING = word_set("rm unlink shred rmdir srm wipe")


def _started_on_found(call: Call, at: int, roots: Sequence[str], *, deep: bool) -> None:
    words = list(call.words[at + 1 :])
    for end, word in enumerate(words):
        if word.text in (";", "+"):
            words = words[:end]
            break
    if not words:
        return
    for root in roots[:2]:
        given = [
            Word(w.text.replace("{}", f"{root}/*" if deep else f"{root}/.found"), w.dynamic, w.quoted, w.labels)
            for w in words
        ]
        call.run(given, lost=True)
    name = words[0].text.rpartition("/")[2]
    if name in _DELETING or (name in ("env", "sudo", "busybox") and any(word.text in _DELETING for word in words)):
        call.effect(EffectKind.DELETES, roots)
        call.ask("find-delete", "it deletes everything that it is given")
    elif name in ("chown", "chmod", "chgrp") and any(root_like(path, call.host.places) for path in roots):
        call.ask("permissions", "it changes owner or rights of the whole system or home")
    elif name in ("cp", "mv") and any("-perm" in text for text in call.args):
        call.ask("privilege", "it takes programs that run with another user's rights")
    elif name == "mv" and any(root_like(path, call.host.places) for path in roots):
        call.ask("mv-away", "it moves away what other things depend on")


def archived(call: Call) -> Stream | None:
    """tar, bsdtar, cpio, unzip, 7z, zip."""
    options = _archive_options(call)
    for name in (
        "to-command",
        "checkpoint-action",
        "use-compress-program",
        "compress-program",
        "info-script",
        "new-volume-script",
        "rsh-command",
        "unzip-command",
    ):
        for word in options.all(name):
            text = word.text.removeprefix("exec=")
            if name != "checkpoint-action" or word.text.startswith("exec"):
                _started(call, text, harmless=name in ("use-compress-program", "compress-program"))
    for word in options.all("I"):
        if call.name in ("tar", "bsdtar"):
            _started(call, word.text, harmless=True)
    for word in options.all("C", "directory", "d") if call.name != "zip" else []:
        if not call.writes(call.path(word), how="unpacks into") and call.path(word) == "/":
            call.ask("protected-path", "it unpacks over the system")
    if options.has("remove-files") or (call.name == "zip" and options.has("m", "move")):
        call.ask("mv-away", "it deletes what it packs")
    if call.name == "zip" and options.has("TT", "unzip-command"):
        call.ask("nested-program", "it is told to start another program")
    if options.has("P", "absolute-names") and options.has("x", "extract") and call.name == "tar":
        call.ask("protected-path", "it unpacks to wherever the archive says")
    return _packed(call, options)


def _archive_options(call: Call) -> Options:
    words = list(call.words)
    if call.name in ("tar", "bsdtar") and words and re.fullmatch(r"[a-zA-Z]+", words[0].text):
        words[0] = Word("-" + words[0].text)
    valued = {"tar": "fCITbXgHNKLV", "bsdtar": "fCITbX", "unzip": "dPx", "zip": "", "cpio": "DFIO"}.get(call.name, "")
    return Options(
        words,
        valued,
        word_set(
            "to-command checkpoint-action use-compress-program compress-program directory file "
            "info-script rsh-command transform exclude files-from"
        ),
    )


def _packed(call: Call, options: Options) -> Stream | None:
    labels = NONE
    if options.has("c", "create", "r", "append") or call.name == "zip":
        labels = call.reads(options.operands)
        if any(root_like(call.path(word), call.host.places) for word in options.operands):
            labels = frozenset({SECRET})
    files = options.all("f", "file")
    if files and files[0].text != "-":
        path = call.path(files[0])
        if options.has("c", "create", "r", "append", "u"):
            call.writes(path, kind=EffectKind.OVERWRITES)
            call.state.files[path] = Stream(None, labels)
        return None
    return Stream(None, labels | call.stdin.labels)


_PACKERS = word_set("gzip bzip2 xz zstd lz4 pigz pbzip2 lzip lzma gunzip pixz zstdmt brotli ssh rsh cat")


def _started(call: Call, text: str, *, harmless: bool = False) -> None:
    words = text.split()
    if harmless and words and words[0].rpartition("/")[2] in _PACKERS:
        return
    call.ask("nested-program", "it is told to start another program")
    if text:
        call.script(text, lost=True)


def sorted_(call: Call) -> None:
    """sort, and others with an output option and a program for packing."""
    options = call.options("okSTt", word_set("output compress-program temporary-directory key files0-from"))
    for word in options.all("compress-program"):
        _started(call, word.text, harmless=True)
    for word in options.all("o", "output"):
        call.writes(call.path(word), kind=EffectKind.OVERWRITES)


def synced(call: Call) -> None:
    """rsync, rclone sync: deletes, starts a remote shell, goes to other machines."""
    options = call.options(
        "efTM", word_set("rsh rsync-path filter exclude include files-from log-file temp-dir backup-dir")
    )
    operands = options.operands
    if options.has(
        "delete", "delete-after", "delete-before", "delete-excluded", "delete-during", "remove-source-files", "del"
    ) and not options.has("n", "dry-run"):
        call.effect(EffectKind.DELETES, [call.path(word) for word in operands[-1:]])
        call.ask("sync-delete", "it deletes what the other side does not have")
    for word in options.all("e", "rsh"):
        if word.text.split()[:1] not in (["ssh"], ["/usr/bin/ssh"]):
            call.ask("nested-program", "rsync is told to start another program")
        call.script(word.text, lost=True)
    for word in options.all("rsync-path"):
        if word.text.split()[:1] != ["rsync"] or len(word.text.split()) > 1:
            call.script(word.text, lost=True)
            call.ask("nested-program", "rsync is told to start another program")
    transferred(call, operands)


def transferred(call: Call, operands: Sequence[Word]) -> None:
    """Copies between machines: what leaves, what comes, what is written here."""
    remote = [
        word for word in operands if re.match(r"[\w.@-]+:|rsync://|\w+://", word.text) and not word.text.startswith("/")
    ]
    if operands and operands[-1] in remote:
        labels = call.reads([word for word in operands[:-1] if word not in remote])
        call.effect(EffectKind.SENDS, [_host(operands[-1].text)])
        deep = any(root_like(call.path(word), call.host.places) for word in operands[:-1] if word not in remote)
        if SECRET in labels or deep:
            call.ask("exfiltration", "it sends keys or the whole home away")
        return
    if remote:
        call.effect(EffectKind.FETCHES, [_host(word.text) for word in remote])
    else:
        call.reads(operands[:-1])
    for word in operands[-1:] if len(operands) > 1 else []:
        path = call.path(word)
        call.writes(path, kind=EffectKind.OVERWRITES)
        for source in remote:
            name = source.text.rpartition("/")[2].rpartition(":")[2]
            call.state.files[path if word.text not in (".", "./") else f"{path}/{name}"] = Stream(
                None, frozenset({FETCHED})
            )


def _host(text: str) -> str:
    if "://" in text:
        return text.split("://", 1)[1].split("/", maxsplit=1)[0].rpartition("@")[2]
    return text.partition(":")[0].rpartition("@")[2]


RULES: dict[str, Rule] = {
    **dict.fromkeys(("rm", "srm", "rmdir", "unlink", "del", "trash", "rimraf", "trash-put"), remove),
    "chattr": attributes,
    **dict.fromkeys(("chmod", "chown", "chgrp", "setfacl"), permissions),
    **dict.fromkeys(
        word_set(
            "wipefs sgdisk gdisk parted fdisk sfdisk cfdisk blkdiscard mke2fs mkswap mkdosfs mkntfs cryptsetup mkfs"
        ),
        disk,
    ),
    "dd": copy_raw,
    "dcfldd": copy_raw,
    **dict.fromkeys(("cp", "mv", "ln", "install"), copied),
    **dict.fromkeys(("tee", "touch", "sponge"), written),
    "truncate": truncated,
    **dict.fromkeys(("shred", "wipe", "scrub", "bleachbit"), shredded),
    "sed": edited,
    "gsed": edited,
    **dict.fromkeys(("find", "fd", "fdfind", "gfind"), found),
    **dict.fromkeys(("tar", "bsdtar", "gtar", "unzip", "zip", "cpio", "7z"), archived),
    "sort": sorted_,
    "rsync": synced,
    "scp": lambda call: transferred(call, call.options("cDFiJloPSX").operands),
}
