"""Disks: what makes one another one, or writes over it."""

import re

from hermes.safety.shell import dataflow
from hermes.safety.shell.call import BLOCK_DEVICE, CommandOptions, ProgramCall, Rule, is_root_like_path
from hermes.safety.shell.findings import EffectKind
from hermes.safety.shell.words import NO_LABELS, ShellStream, Word, word_set

_OVERWRITES = "it overwrites a disk"
_NAMED_DISK = re.compile(
    r"^/dev/(disk/by-\w+/|vg\w*/|mapper/|zvol/|pmem|nbd|ram|bcache|drbd|fd\d|sr\d|st\d|mtd|ubi|raw|nst\d)"
)
DATA = re.compile(r"\.(db|sqlite3?|sql|dump|mdb|rdb|bak|csv|parquet|img|qcow2|vmdk)$", re.IGNORECASE)
LARGE = 8 << 30


def is_disk(path: str) -> bool:
    """Whether a path is a disk, a part of one, or another name of it."""
    return BLOCK_DEVICE.match(path) is not None or _NAMED_DISK.match(path) is not None


def refused(call: ProgramCall, paths: list[str]) -> None:
    """Refuse: a disk would be another one."""
    call.deny("raw-disk", _OVERWRITES, effect=EffectKind.OVERWRITES, targets=paths)


_SHOWING: dict[str, frozenset[str]] = {
    "fdisk": word_set("-l -s -x"),
    "sfdisk": word_set("-l -d -s -V -J"),
    "parted": word_set("-l -v"),
    "sgdisk": word_set("-p -i -v -L"),
    "gdisk": word_set("-l"),
    "cryptsetup": word_set("status isLuks benchmark luksDump luksUUID tcryptDump open luksOpen close luksClose"),
    "e2fsck": word_set("-n"),
}
_SHOWING_ALL = word_set("print luksDump --list --print --version --help --dump --json -V free")


def _only_shows(call: ProgramCall, options: CommandOptions) -> bool:
    if call.name == "wipefs" and not options.has_option("a", "all", "o", "offset"):
        return True
    showing = _SHOWING_ALL | _SHOWING.get(call.name, NO_LABELS)
    return not showing.isdisjoint(call.args)


def _devices(call: ProgramCall) -> list[str]:
    """The devices that are named, also as a value: `of=/dev/sda`."""
    paths = [call.resolve_path(Word(word.text.rpartition("=")[2])) for word in call.words]
    return [path for path in paths if path.startswith("/dev/")]


def made(call: ProgramCall) -> None:
    """mkfs, wipefs, parted ...: what makes a disk another one."""
    options = call.parse_options()
    if _only_shows(call, options):
        return
    if devices := _devices(call):
        refused(call, devices)
    elif any(word.dynamic for word in call.words):
        call.ask("raw-disk", "it may overwrite a disk")


_VOLUMES: dict[str, str] = {
    # By program: words after which a disk, a volume or a pool is gone.
    **dict.fromkeys(
        word_set(
            "lvremove vgremove pvremove lvreduce vgreduce sg_sanitize partclone.restore nwipe dban flash_erase "
            "flash_eraseall ubiformat thin_restore xfs_mdrestore"
        ),
        r"",
    ),
    "lvresize": r".*-L ?-",
    "zpool": r"(destroy|labelclear|create\b.*-f)",
    "zfs": r"destroy\b.*-\w*[rRf]",
    "mdadm": r".*(--zero-superblock|--create|-C\b)",
    "btrfs": r"(subvolume|subvol|sub) (delete|del)\b.* (/|/home|/root|/etc|/usr|/var)/?( |$)|device (remove|delete)",
    "hdparm": r".*(--security-erase|--trim-sector|--make-bad-sector|--write-sector|--yes-i-know|--dco-restore|-N ?p)",
    "nvme": r"(format|sanitize|write-zeroes|write-uncor|delete-ns|dsm|detach-ns)\b",
    "badblocks": r".*-\w*[wn]\w*\b",
    "sg_format": r".*--format|.*-F",
    "sg_dd": r".*of=/dev/",
    "ddrescue": r".* /dev/\w+",
    "dd_rescue": r".* /dev/\w+",
    "dc3dd": r".*(wipe|of)=/dev/",
    "diskutil": r"(eraseDisk|eraseVolume|partitionDisk|zeroDisk|randomDisk|secureErase|reformat|apfs delete\w*)",
    "asr": r".*--erase",
    "newfs": r".*/dev/",
    "gpart": r"(destroy|delete|create)",
    "dmsetup": r"(remove|remove_all|wipe_table|clear)",
    "blkdiscard": r".*/dev/",
    "mtd": r"erase",
    "hdfs": r".*namenode -format",
}
_ASKING: dict[str, str] = {
    "lvresize": r"",
    "zpool": r"(offline|detach|remove|export|clear|split|replace|create)",
    "zfs": r"(destroy|rollback|unmount|release|promote|receive\b.*-F)",
    "mdadm": r".*(--stop|--remove|--fail|-S\b|--grow|-f\b|-r\b)",
    "btrfs": r"(subvolume delete|subvol delete|balance|check --repair|rescue|replace|filesystem resize)",
    "hdparm": r".*-(?!(I|i|t|T|g|C)\b)\S",
    "nvme": r"(reset|set-feature|fw-\w+|create-ns|attach-ns)",
    "badblocks": r"",
    "diskutil": r"(erase\w*|partition\w*|unmount\w*|apfs (?!list)\w+|resizeVolume|eject|rename)",
    "hdfs": r".*-(rm|rmr|expunge|delete\w*)",
    "sg_format": r"",
    "dmsetup": r"(suspend|load|resume|reload|create|mknodes)",
    "asr": r"restore",
}
_GONE = {name: re.compile(text) for names, text in _VOLUMES.items() for name in names.split()}
_CHANGED = {name: re.compile(text) for name, text in _ASKING.items()}
_TRIED = word_set("-t --test -n --dry-run --help --version -h -V")


def volumes(call: ProgramCall) -> None:
    """lvremove, zpool, mdadm, nvme, hdparm: volumes, pools and disks that are gone after it."""
    text = " ".join(call.args)
    if not text or _TRIED.intersection(call.args[:3]):
        return
    gone, changed = _GONE.get(call.name), _CHANGED.get(call.name)
    if gone is not None and gone.match(text):
        refused(call, call.args[-1:])
    elif changed is not None and changed.match(text):
        call.ask("lvm", "it destroys or changes volumes or pools", effect=EffectKind.DESTROYS, targets=call.args[-1:])


_UNITS = {"": 1, "c": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "P": 1 << 50}


def size_of(text: str) -> int:
    """`10G` in bytes; 0 when it is none."""
    found = re.match(r"(\d{1,15})\s*([KMGTPkmgtpc]?)", text)
    return int(found[1]) * _UNITS[found[2].upper() if found[2] != "c" else "c"] if found else 0


def copy_raw(call: ProgramCall) -> ShellStream | None:
    """dd."""
    values = {name: Word(value, "$" in value) for name, _, value in (text.partition("=") for text in call.args)}
    source = values.get("if")
    labels = call.judge_reads([source]) if source is not None else NO_LABELS
    if "of" not in values:
        return ShellStream(None, labels | call.stdin.labels)
    target = call.resolve_path(values["of"])
    if is_disk(target) or re.match(r"/dev/[\w*?\[\]-]*[*?\[]", target):
        refused(call, [target])
        return None
    if target.startswith("/dev/") and not target.startswith("/dev/shm/"):  # noqa: S108 - a rule names it
        return None
    if not call.judge_write(target, how="overwrites", kind=EffectKind.OVERWRITES):
        _overwritten(call, target, values)
        call.state.files[target] = ShellStream(None, labels)
    return None


def _overwritten(call: ProgramCall, target: str, values: dict[str, Word]) -> None:
    source = values.get("if", Word("")).text
    endless = dataflow.is_endless_file(source)
    raw = "notrunc" in values.get("conv", Word("")).text or (DATA.search(target) and not target.endswith(".img"))
    if _takes_nothing(values):
        call.ask("emptied", "it empties a file")
    elif endless and _size(values) > LARGE:
        call.ask("fills", "it fills the disk", effect=EffectKind.EXHAUSTS, targets=(target,))
    elif endless and raw:
        call.ask("dd", "it overwrites a file block by block")


def _takes_nothing(values: dict[str, Word]) -> bool:
    """Whether a file is only truncated; with `seek` it is made a large one."""
    none = "count" in values and values["count"].text == "0" and not {"seek", "conv"} & values.keys()
    return none or values.get("if", Word("")).text == "/dev/null"


def _size(values: dict[str, Word]) -> int:
    if "count" not in values:
        return 1 << 60
    return size_of(values["count"].text) * (size_of(values["bs"].text) if "bs" in values else 512)


def shredded(call: ProgramCall) -> None:
    """shred, wipe, scrub: nothing brings that back."""
    paths = [call.resolve_path(word) for word in call.parse_options("nsw").operands]
    call.add_effect(EffectKind.DELETES, paths)
    if any(map(is_disk, paths)):
        call.deny("raw-disk", _OVERWRITES)
    elif any(vital(path) or is_root_like_path(path, call.host.places) for path in paths):
        call.deny("rm-root", "it destroys what the system stands on")
    elif call.words and not call.parse_options().has_option("help", "version"):
        call.ask("shred", "it destroys files for good")


_VITAL = re.compile(
    r"^/etc/(passwd|shadow|group|gshadow|fstab|sudoers|crypttab|ld\.so\.(cache|conf)|pam\.d(/.*)?|nsswitch\.conf|inittab)$|"
    r"^/boot/.+|^/efi/.+|^/(lib|lib64|usr/lib|usr/lib64)(/\w+-linux-gnu\w*)?(/(ld-|libc\.so|libc-|libpthread|systemd)[^/]*)?$|"
    r"^/(usr/)?s?bin/(sh|bash|ls|cp|mv|rm|login|init|sudo|mount|systemd\S*|\*)$|^/sbin/init$|^/var/lib/(dpkg|rpm|pacman)(/.*)?$"
)


def vital(path: str) -> bool:
    """Whether a system does not start, or lets nobody in, without this file."""
    return _VITAL.match(path) is not None


RULES: dict[str, Rule] = {
    **dict.fromkeys(
        word_set(
            "wipefs sgdisk gdisk parted fdisk sfdisk cfdisk mke2fs mkswap mkdosfs mkntfs cryptsetup mkfs mkfs.ext4 "
            "mkudffs cgdisk"
        ),
        made,
    ),
    **dict.fromkeys({*_GONE, *_ASKING}, volumes),
    "dd": copy_raw,
    "dcfldd": copy_raw,
    "shred srm wipe scrub bleachbit": shredded,
}
