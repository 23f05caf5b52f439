"""The machine: power, services, users, kernel, firewall, packages, processes, jobs, history."""

import re
from collections.abc import Callable, Sequence

from hermes.safety.call import Call
from hermes.safety.findings import EffectKind
from hermes.safety.words import NOTHING, Stream
from hermes.safety.words import words as word_set

Rule = Callable[[Call], Stream | None]
_SELF = re.compile(r"hermes|gateway|^(bash|zsh|sh|fish|tmux|screen|sshd|systemd|init|login|python3?)$", re.IGNORECASE)


def power(call: Call) -> None:
    """shutdown, reboot, poweroff, halt."""
    if call.args and call.options().has("help", "version", "show", "w", "wtmp-only"):
        return
    if call.name == "shutdown" and call.args[:1] == ["-c"]:
        return
    call.effect(EffectKind.KILLS, ("machine",))
    call.deny("power", "it stops the machine")


def level(call: Call) -> None:
    """init, telinit."""
    if any(text in ("0", "6") for text in call.args):
        power(call)
    elif call.args and re.fullmatch(r"[1-5sSqQ]", call.args[0]):
        call.ask("service", "it stops what the machine needs")


_UNITS_STOPPED = word_set(
    "stop disable mask kill isolate rescue emergency suspend hibernate hybrid-sleep suspend-then-hibernate edit revert "
    "set-default set-property switch-root halt"
)


def units(call: Call) -> None:
    """systemctl, service, rc-service, sv, initctl, launchctl, loginctl."""
    options = call.options("HMntps", word_set("host machine type state property signal root kill-who"))
    verbs = [word.text for word in options.operands]
    verb = verbs[0] if verbs else ""
    if (call.name == "systemctl" and verb in ("reboot", "poweroff", "halt", "kexec", "soft-reboot", "exit")) or (
        call.name == "systemctl"
        and verb in ("reboot.target", "start")
        and any("reboot" in text or "poweroff" in text for text in verbs)
    ):
        power(call)
    elif call.name == "systemctl" and (verb in _UNITS_STOPPED or options.has("force")):
        call.effect(EffectKind.KILLS, verbs[1:])
        call.ask("service", "it stops what the machine needs")
    elif call.name == "systemctl" and verb in ("restart", "try-restart", "reload-or-restart") and _is_own(verbs):
        call.ask("kill-self", "it may end Hermes itself")
    elif call.name == "systemctl" and verb in (
        "enable",
        "link",
        "reenable",
        "preset",
        "add-wants",
        "set-environment",
        "import-environment",
    ):
        call.effect(EffectKind.PERSISTS, verbs[1:])
        call.ask("time", "it changes what runs later by itself")
    elif call.name != "systemctl" and any(
        text
        in (
            "stop",
            "down",
            "unload",
            "bootout",
            "remove",
            "disable",
            "kill",
            "force-stop",
            "terminate-user",
            "terminate-session",
            "kill-session",
            "kill-user",
            "exit",
        )
        for text in verbs
    ):
        call.ask("service", "it stops what the machine needs")
    elif call.name in ("launchctl", "loginctl") and any(
        text in ("load", "bootstrap", "enable-linger", "submit", "setenv") for text in verbs
    ):
        call.effect(EffectKind.PERSISTS, verbs)
        call.ask("time", "it changes what runs later by itself")


def _is_own(verbs: Sequence[str]) -> bool:
    return any(_SELF.search(text.removesuffix(".service")) for text in verbs[1:])


def kill(call: Call) -> None:
    """kill: by number, and by what is only known when it runs."""
    texts = call.args
    numbers = [text for text in texts if re.fullmatch(r"-?\d+", text)]
    if call.args[:1] and call.args[0] in ("-l", "-L", "--list", "--help", "--version"):
        return
    if texts[:1] == ["-0"] or texts[:2] == ["-s", "0"]:
        return
    targets = list(texts)
    if targets and targets[0].startswith("-") and targets[0] not in ("-s", "-n", "--signal", "--"):
        targets = targets[1:]
    elif targets[:1] and targets[0] in ("-s", "-n", "--signal"):
        targets = targets[2:]
    targets = [text for text in targets if text != "--"]
    if (
        "-1" in targets
        or targets == ["1"]
        or (len(numbers) > 0 and texts[-1:] == ["1"])
        or (texts[-1:] == ["-1"] and len(texts) > 1)
    ):
        call.effect(EffectKind.KILLS, targets)
        call.deny("kill-all", "it ends every process, or the first one")
    elif (
        not targets
        or any(word.dynamic for word in call.words)
        or not all(re.fullmatch(r"\d+|%[\w+-]*", text) for text in targets)
    ):
        call.effect(EffectKind.KILLS, targets)
        call.ask("kill-unknown", "which process it ends is only known when it runs; it may be Hermes itself")


def kill_named(call: Call) -> None:
    """pkill, killall, skill, killall5."""
    options = call.options(
        "uUgGPstnoO" if call.name != "killall" else "suoyZn", word_set("signal user uid euid parent group session")
    )
    call.effect(EffectKind.KILLS, [word.text for word in options.operands])
    if call.name == "killall5":
        call.deny("kill-all", "it ends every process, or the first one")
    elif options.has("l", "list", "help", "version") and call.name != "pkill":
        return
    elif any(_SELF.search(word.text) or _matches_self(word.text) for word in options.operands):
        call.ask("kill-self", "it may end Hermes itself")
    elif (
        any(options.all(name) for name in ("u", "U", "user", "uid", "euid", "P", "parent", "G", "t", "s"))
        or any(word.text in ("*", ".", ".*", "", "-1", "p", "py") or word.dynamic for word in options.operands)
        or ("-1" in call.args and not options.operands)
    ):
        call.ask("kill-all", "it ends every process of a user")


def _matches_self(pattern: str) -> bool:
    """Whether a pattern means Hermes. One without groups and repeats of repeats cannot run away on so short a text."""
    if len(pattern) > 40 or "(" in pattern or not any(char in ".*[?+" for char in pattern):
        return False
    try:
        return re.search(pattern, "hermes-gateway") is not None
    except re.error:
        return True


def fuser(call: Call) -> None:
    """fuser -k."""
    if call.options("nN").has("k", "kill"):
        call.ask("kill-unknown", "which process it ends is only known when it runs; it may be Hermes itself")


def jobs(call: Call) -> None:
    """crontab, at, batch: what runs later."""
    options = call.options("uf" if call.name != "crontab" else "u")
    if call.name == "crontab":
        if not options.has("l", "T", "V"):
            call.effect(EffectKind.PERSISTS, ("crontab",))
            call.ask("crontab", "it changes what runs later by itself")
    elif not options.has("l", "V", "c") and call.name in ("at", "batch", "atrm"):
        call.effect(EffectKind.PERSISTS, ("at",))
        if call.stdin.text:
            call.script(call.stdin.text, lost=True, stdin=NOTHING)
        call.ask("time", "it changes what runs later by itself")


def mounts(call: Call) -> None:
    """mount, umount, swapoff, losetup."""
    options = call.options("otLUO", word_set("options types source target"))
    if call.name in ("mount", "umount") and not options.operands and not options.has("a", "all"):
        return
    if options.has("help", "version") or (
        call.name == "losetup" and (options.has("l", "a", "list", "all", "f") and not options.operands)
    ):
        return
    call.effect(EffectKind.ESCALATES, [word.text for word in options.operands])
    call.ask("system", "it changes the running system")


def parameters(call: Call) -> None:
    """sysctl: writing."""
    options = call.options("p", word_set("load system"))
    if options.has("w", "write", "p", "load", "system") or any("=" in word.text for word in options.operands):
        call.effect(EffectKind.ESCALATES)
        call.ask("system", "it changes the running system")


def firewall(call: Call) -> None:
    """iptables, nft, ufw, firewall-cmd: opening, and closing the door on oneself."""
    args = call.args
    text = " ".join(args)
    harmful = {
        "nft": r"\b(flush|delete|destroy|add|insert|replace)\b|-f\b",
        "ufw": r"\b(disable|reset|default|allow|delete|deny|reject|enable)\b",
        "firewall-cmd": r"--(add|remove|set|change|panic-on|complete-reload|direct)",
        "pfctl": r"(^| )-[dFf]",
    }.get(call.name, r"(^| )(-F|--fl\w*|-X|--delete-chain|-P|--policy|-D|--delete|-A|--append|-I|--insert|-Z|-R)\b|^$")
    if re.search(harmful, text) and not re.search(r"^(-L|--list|list|status|show)", text):
        call.effect(EffectKind.ESCALATES)
        call.ask("wall", "it opens the firewall, or turns a protection off")


def net(call: Call) -> None:
    """ip, ifconfig, route, nmcli, tc: cutting or changing the network."""
    text = " ".join(call.args)
    harmful = {
        "ip": r"\b(del|delete|flush|down|add|change|replace|set)\b",
        "ifconfig": r"\b(down|up|add|del|netmask|promisc|hw)\b|\s\d+\.\d+",
        "route": r"\b(add|del|delete|flush|change)\b",
        "nmcli": r"\b(off|down|delete|disconnect|modify|add|up)\b",
        "tc": r"\b(add|del|change|replace)\b",
        "netplan": r"\bapply\b",
        "ifdown": "",
        "iwconfig": r"\S \S",
        "rfkill": r"\bblock\b",
        "iw": r"\b(del|set)\b",
    }[call.name]
    if re.search(harmful, text) and not re.match(r"(-\w+ )*(addr|a|link|l|route|r) (show|list|get)", text):
        call.effect(EffectKind.ESCALATES)
        call.ask("network", "it cuts or changes the network")


_PACKAGE_LOSSES: dict[str, str] = {
    "apt": r"(purge|remove|autoremove|autopurge|full-upgrade|dist-upgrade)",
    "apt-get": r"(purge|remove|autoremove|autopurge|dist-upgrade)",
    "aptitude": r"(purge|remove)",
    "dpkg": r"(--purge|-P|--remove|-r|--force.*)",
    "yum": r"(remove|erase|autoremove)",
    "dnf": r"(remove|erase|autoremove)",
    "rpm": r"(-e|--erase|-\w*e\w*|--nodeps)",
    "pacman": r"-R\w*",
    "zypper": r"(remove|rm)",
    "apk": r"del",
    "brew": r"(uninstall|remove|rm|autoremove|untap)",
    "snap": r"(remove|disable)",
    "flatpak": r"(uninstall|remove)",
    "emerge": r"(-C|--unmerge|-c|--depclean)",
    "nix-env": r"(-e|--uninstall)",
    "port": r"uninstall",
    "rustup": r"self",
    "cargo": r"uninstall",
    "choco": r"uninstall",
    "winget": r"uninstall",
    "dpkg-divert": r".*",
    "xbps-remove": r".*",
    "pkg": r"(delete|remove|autoremove)",
    "pkg_delete": ".*",
    "gem": r"uninstall",
    "nix-collect-garbage": r"(-d|--delete-old)",
    "swupd": "bundle-remove",
    "conda": r"env",
    "pip": r"uninstall",
}


def packages(call: Call) -> Stream | None:
    """Package programs: removals ask; installing runs what the packages bring."""
    wanted = _PACKAGE_LOSSES[call.name]
    args = call.args
    if any(text in ("-s", "--simulate", "--dry-run", "--just-print", "--help") for text in args):
        return None
    matched = next((text for text in args if re.fullmatch(wanted, text)), "")
    if not matched and args[:1]:
        from hermes.safety import flow

        held = [flow.looked_up(call, word) for word in call.words[1:]]
        if any("fetched" in (one.labels | word.labels) for one, word in zip(held, call.words[1:], strict=True)):
            call.ask("remote-exec", "it installs what it downloads")
        installs = any(text in ("install", "add", "-S", "-i", "-U", "upgrade", "update", "-Syu") for text in args)
        if installs:
            call.effect(EffectKind.FETCHES, ("registry",))
            call.effect(EffectKind.RUNS, ("registry",))
        return None
    if call.name in ("pip", "gem", "cargo", "conda", "brew", "flatpak") and not _removes_all(call, matched):
        return None
    if matched or call.name == "dpkg-divert":
        call.effect(EffectKind.DELETES, [text for text in args if not text.startswith("-")][1:])
        call.ask("packages", "it removes programs that others may need")
    return None


def _removes_all(call: Call, matched: str) -> bool:
    if call.name == "conda":
        return "remove" in call.args
    if call.name == "pip":
        return "-r" in call.args or any(word.dynamic for word in call.words)
    return call.name != "brew" or "--force" in call.args or "--zap" in call.args or matched == "remove"


def history(call: Call) -> None:
    """history, set +o history, unset HISTFILE, fc."""
    args = call.args
    if call.name == "history" and any(re.fullmatch(r"-[a-z]*[cdwr]\w*", text) for text in args):
        call.ask("traces", "it wipes or rewrites the history of commands")
    elif (call.name == "set" and "+o" in args and "history" in args) or (
        call.name == "unset" and any(text in ("HISTFILE", "HISTSIZE") for text in args)
    ):
        call.ask("traces", "it turns off the history of commands")
    elif call.name == "unset":
        for text in args:
            call.state.variables.pop(text, None)


def unset(call: Call) -> Stream | None:
    """set, unset: `set` alone shows every variable."""
    history(call)
    if call.name == "set" and not call.args:
        return Stream(None, frozenset({"secret"}))
    if call.name == "set" and call.args[:1] == ["--"]:
        call.state.positional = list(call.words[1:])
    elif call.name == "set" and call.words and not call.args[0].startswith(("-", "+")):
        call.state.positional = list(call.words)
    return NOTHING


def shown_or_asks(rule: str, kind: EffectKind, reason: str, *showing: str) -> Rule:
    """A program that asks, unless it is only made to show something."""
    harmless = {"--help", "--version", "-h", "-V", *showing}

    def judge(call: Call) -> None:
        if call.args and harmless.intersection(call.args):
            return
        call.effect(kind, call.args)
        call.ask(rule, reason)

    return judge


def filled(call: Call) -> Stream | None:
    """yes, cat /dev/zero, head -c 500G, fallocate, stress."""
    if call.name == "fallocate":
        options = call.options("lo", word_set("length offset"))
        if any(flow_size(word.text) > 8 << 30 for word in options.all("l", "length")):
            call.ask("fills", "it fills the disk")
        return None
    call.effect(EffectKind.EXHAUSTS)
    call.ask("bomb", "it takes all of the machine's processes or memory")
    return None


def flow_size(text: str) -> int:
    """A size such as `10G` in bytes."""
    from hermes.safety.rules.files import size_of

    return size_of(text)


def bus(call: Call) -> None:
    """dbus-send, busctl, gdbus: power off by a message."""
    text = " ".join(call.args)
    if re.search(r"PowerOff|Reboot|Halt|Suspend|Hibernate", text):
        power(call)
    elif re.search(r"login1|systemd1|PolicyKit|Secrets|StopUnit|MaskUnit", text):
        call.ask("service", "it speaks to what runs the machine")


def windows(call: Call) -> None:
    """net, reg, vssadmin, wmic, cmd, format."""
    text = " ".join(call.args).lower()
    harmful = {
        "net": r"\b(user|localgroup|stop|share|accounts)\b.*(/add|/delete|/active)|\bstop\b|user \S+ \S+",
        "reg": r"\b(delete|add|import|restore|load)\b",
        "vssadmin": r"\b(delete|resize)\b",
        "wmic": r"\b(delete|call)\b",
        "bcdedit": r".",
        "diskpart": r"",
        "taskkill": r"",
        "sc": r"\b(delete|stop|config|create)\b",
        "schtasks": r"/(create|delete|change)",
        "icacls": r"/(grant|reset|remove)",
        "takeown": r"",
        "cipher": r"/w",
        "netsh": r"\b(set|delete|add|reset)\b",
        "wevtutil": r"\bcl\b|clear",
        "rd": r"/s",
        "erase": "",
        "attrib": r"[+-]",
        "certutil": r"-(urlcache|decode)",
        "bitsadmin": r"/transfer",
        "mshta": "",
        "regsvr32": "",
        "rundll32": "",
        "wbadmin": "delete",
        "fsutil": "",
        "powercfg": "",
        "logoff": "",
        "format.com": "",
        "format": r"^\w:",
        "robocopy": r"/(mir|purge|mov)",
        "cmd": r"\b(del|rd|rmdir|format|erase|reg|net)\b",
        "cmd.exe": r"\b(del|rd|rmdir|format|erase|reg|net)\b",
    }[call.name]
    if re.search(harmful, text):
        call.ask("system", "it changes the running system")


def _asks(rule: str, kind: EffectKind, reason: str, names: str, *showing: str) -> dict[str, Rule]:
    return dict.fromkeys(word_set(names), shown_or_asks(rule, kind, reason, *showing))


RULES: dict[str, Rule] = {
    **dict.fromkeys(("shutdown", "reboot", "poweroff", "halt"), power),
    **dict.fromkeys(("init", "telinit"), level),
    **dict.fromkeys(
        (
            "systemctl",
            "service",
            "rc-service",
            "sv",
            "initctl",
            "launchctl",
            "loginctl",
            "invoke-rc.d",
            "supervisorctl",
        ),
        units,
    ),
    "kill": kill,
    **dict.fromkeys(("pkill", "killall", "skill", "killall5", "slay"), kill_named),
    "fuser": fuser,
    **dict.fromkeys(("crontab", "at", "batch", "atrm"), jobs),
    **dict.fromkeys(("mount", "umount", "losetup"), mounts),
    "sysctl": parameters,
    **dict.fromkeys(
        (
            "iptables",
            "ip6tables",
            "nft",
            "ufw",
            "firewall-cmd",
            "pfctl",
            "ebtables",
            "arptables",
            "ipset",
            "iptables-restore",
        ),
        firewall,
    ),
    **dict.fromkeys(("ip", "ifconfig", "route", "nmcli", "tc", "netplan", "ifdown", "iwconfig", "rfkill", "iw"), net),
    **dict.fromkeys(_PACKAGE_LOSSES, packages),
    "history": history,
    **dict.fromkeys(("unset", "set"), unset),
    **dict.fromkeys(("stress", "stress-ng", "fallocate"), filled),
    **dict.fromkeys(("dbus-send", "busctl", "gdbus"), bus),
    **dict.fromkeys(
        word_set(
            "format robocopy cmd net reg vssadmin wmic "
            "bcdedit diskpart taskkill sc schtasks icacls takeown cipher netsh wevtutil rd erase "
            "certutil bitsadmin mshta regsvr32 rundll32 wbadmin fsutil format.com"
        ),
        windows,
    ),
    **_asks(
        "users",
        EffectKind.ESCALATES,
        "it changes who may use the machine",
        "useradd userdel usermod adduser deluser groupadd groupdel groupmod gpasswd chpasswd visudo vipw vigr chsh "
        "newusers dscl sysadminctl chage pwconv faillock",
        "-l",
        "--list",
        "-read",
    ),
    **_asks("users", EffectKind.ESCALATES, "it changes who may use the machine", "passwd", "-S", "--status"),
    **_asks(
        "system",
        EffectKind.ESCALATES,
        "it changes the running system",
        "modprobe rmmod insmod depmod kexec update-initramfs mkinitcpio dracut grub-install update-grub "
        "grub-mkconfig tune2fs "
        "swapoff fsfreeze hdparm efibootmgr setcap bootctl mokutil debugfs resize2fs xfs_repair nvram csrutil spctl "
        "update-alternatives hostnamectl timedatectl localectl aa-teardown aa-disable aa-complain dpkg-reconfigure "
        "pivot_root nvme sg_format zerofree badblocks",
        "-n",
        "--dry-run",
        "list",
        "status",
        "-v",
        "--show-depends",
        "--list",
        "-l",
        "--display",
        "-D",
        "--config",
        "-getcap",
        "-I",
        "id-ctrl",
        "smart-log",
        "-s",
        "-i",
    ),
    **_asks(
        "wall",
        EffectKind.ESCALATES,
        "it turns a protection off",
        "setenforce setsebool auditctl apparmor_parser",
        "-l",
        "-s",
    ),
    **_asks(
        "rights",
        EffectKind.ESCALATES,
        "it runs with another user's rights",
        "pkexec gosu capsh machinectl",
        "list",
        "--print",
    ),
    **_asks(
        "kill-unknown", EffectKind.KILLS, "it takes hold of other processes", "gdb gcore reptyr crash", "-batch-help"
    ),
    **_asks(
        "lvm",
        EffectKind.DESTROYS,
        "it destroys volumes or pools",
        "lvremove vgremove pvremove lvreduce vgreduce lvresize zpool-destroy",
        "-t",
        "--test",
    ),
}
