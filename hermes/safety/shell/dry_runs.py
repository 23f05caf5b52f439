"""Options with which a program only says what it would do. The only table of them.

Only those stand here with which the program itself stops short of doing it, whatever else is given.
"""

import re
from typing import NamedTuple

from hermes.safety.shell.call import ProgramCall
from hermes.safety.shell.words import word_set


class _Plan(NamedTuple):
    """How a program is told to change nothing."""

    said: str
    """Letters and long names, any of which says it."""
    valued: str = ""
    """Letters whose value stands behind them: what follows is no option."""
    named: frozenset[str] = frozenset()
    verbs: str = ""
    """What its operands have to begin with for that."""


_MADE = _Plan("n", "bCdeEfgGiIJlLmMNoOrTtUz")
_RESTORED = _Plan("t test", "TMw", word_set("table modprobe wait"))
PLANS: dict[str, _Plan] = {
    **dict.fromkeys(("mke2fs", "mkfs.ext2", "mkfs.ext3", "mkfs.ext4"), _MADE),
    "mkfs.xfs": _Plan("N", "bcdilmnprsL"),
    "sfdisk": _Plan("n no-act", "oNOwWXY", word_set("backup-file label partno wipe wipe-partitions label-nested")),
    "fsck": _Plan("N", "tCr"),
    "visudo": _Plan("c check", "fx", word_set("file export")),
    **dict.fromkeys(("iptables-restore", "ip6tables-restore"), _RESTORED),
    "nft": _Plan("c check", "fID", word_set("file includepath define")),
    "shutdown": _Plan("k"),
    "systemctl": _Plan("dry-run", "HMptsno", verbs=r"(halt|poweroff|reboot|kexec|suspend|hibernate|default|rescue)\b"),
    "alembic": _Plan("sql", "cnx", word_set("config name tag"), verbs=r"(up|down)grade\b"),
    "salt": _Plan("", "CELGNSIR", verbs=r"\S+ state\.\w+ (.* )?test=True$"),
    "poetry": _Plan("dry-run", "rupPC", word_set("repository username password dist-dir"), verbs="publish"),
    "pacman": _Plan("p print", "br", word_set("dbpath root config arch cachedir hookdir")),
    "borg": _Plan("n dry-run", "dwmyHPa", verbs=r"(delete|prune|create|extract|recreate)\b"),
    "restic": _Plan("n dry-run", "ropH", verbs=r"(forget|prune|backup|restore)\b"),
    "rclone": _Plan("n dry-run", "", word_set("config filter include exclude backup-dir log-file")),
    "gsutil": _Plan("n", "oux", verbs=r"rsync\b"),
    "pulumi": _Plan("preview-only", "sCm", verbs=r"(up|destroy|refresh)\b"),
    **dict.fromkeys(
        ("docker", "docker-compose"),
        _Plan(
            "dry-run",
            "fpHc",
            word_set("file project-name env-file profile host context"),
            verbs=r"(compose )?(down|rm|kill|up|stop)\b",
        ),
    ),
}
"""By program."""
_FALSE = word_set("false no none 0 off")
_VERBS = {name: re.compile(plan.verbs) for name, plan in PLANS.items()}


def only(call: ProgramCall) -> bool:
    """Whether a call of a program of the table changes nothing."""
    plan = PLANS[call.name]
    options = call.parse_options(plan.valued, plan.named)
    said = plan.said.split()
    if said and (not options.has_option(*said) or any(word.text in _FALSE for word in options.option_values(*said))):
        return False
    return _VERBS[call.name].match(" ".join(word.text for word in options.operands)) is not None
