"""The machine: users, kernel, firewall, network, mounts, jobs, history, and what takes all of it."""

import re
from collections.abc import Callable

from hermes.safety.shell import dataflow
from hermes.safety.shell.call import ProgramCall
from hermes.safety.shell.findings import EffectKind
from hermes.safety.shell.programs.disks import size_of
from hermes.safety.shell.words import EMPTY_STREAM, SECRET, ShellStream, word_set

Rule = Callable[[ProgramCall], ShellStream | None]
_LATER = "it changes what runs later by itself"
_CHANGES = "it changes the running system"
_WALL = "it opens the firewall, or turns a protection off"


def jobs(call: ProgramCall) -> None:
    """crontab, at, batch: what runs later."""
    options = call.parse_options("uf" if call.name != "crontab" else "u")
    if call.name in ("crontab", "fcrontab"):
        if not options.has_option("l", "T", "V", "help"):
            call.add_effect(EffectKind.PERSISTS, ("crontab",))
            call.ask("crontab", _LATER)
    elif not options.has_option("l", "V", "c"):
        call.add_effect(EffectKind.PERSISTS, ("at",))
        if call.stdin.text:
            call.judge_script(call.stdin.text, lost=True, stdin=EMPTY_STREAM)
        call.ask("time", _LATER)


def mounts(call: ProgramCall) -> None:
    """mount, umount, swapoff, losetup."""
    options = call.parse_options("otLUO", word_set("options types source target"))
    if call.name in ("mount", "umount") and not options.operands and not options.has_option("a", "all"):
        return
    if options.has_option("help", "version") or (
        call.name == "losetup" and (options.has_option("l", "a", "list", "all", "f") and not options.operands)
    ):
        return
    call.add_effect(EffectKind.ESCALATES, [word.text for word in options.operands])
    call.ask("system", _CHANGES)


def parameters(call: ProgramCall) -> None:
    """sysctl: writing."""
    options = call.parse_options("p", word_set("load system"))
    if options.has_option("w", "write", "p", "load", "system") or any("=" in word.text for word in options.operands):
        call.add_effect(EffectKind.ESCALATES)
        call.ask("system", _CHANGES)


_WALLS: dict[str, str] = {
    # By program: words that change the firewall; `iptables` and its like have their own letters.
    "nft": r"\b(flush|delete|destroy|add|insert|replace|reset)\b|-f\b",
    "ufw": r"\b(disable|reset|default|allow|delete|deny|reject|enable|limit|reload|insert)\b",
    "firewall-cmd": r"--(add|remove|set|change|panic-o|complete-reload|direct|delete|permanent)",
    "pfctl": r"(^| )-[a-zA-Z]*[dFfKkP]",
    "ipset": r"\b(destroy|flush|del|add|create|swap|x|restore)\b",
    "shorewall": r"\b(stop|clear|reset|allow|drop)\b",
    "csf": r"(^| )-(x|f|e|d|a|r)\b",
    "iptables-restore": r"",
    "ip6tables-restore": r"",
    "nft-restore": r"",
    "socketfilterfw": r"--(setglobalstate|add|remove|unblock|setblockall)",
    "netfilter-persistent": r"\b(flush|stop|reload)\b",
    "fwupdmgr": r"\b(update|install|downgrade|modify)",
    "ipfw": r"\b(flush|delete|add|disable)\b",
    "setenforce": r"",
}
_CHAINS = re.compile(
    r"(^| )(-F|--fl\w*|-X|--delete-chain|-P|--policy|-D|--delete|-A|--append|-I|--insert|-Z|-R|-N|-E|"
    r"--zero|--replace)\b|^$"
)
_WALL_PATTERNS = {name: re.compile(text) for name, text in _WALLS.items()}
_WALL_SHOWN = re.compile(r"^(-L|--list|list|status|show|-S|-s|--state|--get|-vL|-nL|-nvL|--help|-h$|--version)")


def firewall(call: ProgramCall) -> None:
    """iptables, nft, ufw, firewall-cmd: opening, and closing the door on oneself."""
    text = " ".join(call.args)
    if _WALL_PATTERNS.get(call.name, _CHAINS).search(text) and not _WALL_SHOWN.match(text):
        call.add_effect(EffectKind.ESCALATES)
        call.ask("wall", _WALL)


_NETWORK: dict[str, str] = {
    "ip": r"\b(del|delete|flush|down|add|change|replace|set|append|attach)\b",
    "ifconfig": r"\b(down|up|add|del|netmask|promisc|hw|delete)\b|\s\d+\.\d+",
    "route": r"\b(add|del|delete|flush|change)\b",
    "nmcli": r"\b(off|down|delete|disconnect|modify|add|up|connect|clone|import)\b",
    "tc": r"\b(add|del|change|replace|delete)\b",
    "netplan": r"\b(apply|try|set)\b",
    "ifdown": r"",
    "ifup": r"",
    "iwconfig": r"\S \S",
    "rfkill": r"\bblock\b",
    "iw": r"\b(del|set)\b",
    "ethtool": r"(^| )(-s|-K|-E|--reset|--change|-f|-A|-G|-C|-L|--set\S*)\b",
    "networksetup": r"-(set|remove|create|add|switch|delete)\S*",
    "resolvectl": r"\b(revert|dns|domain|dnssec|flush\S*|reset\S*)\b \S",
    "brctl": r"\b(addbr|delbr|addif|delif)\b",
    "ovs-vsctl": r"\b(del|add|emer-reset|set)\S*",
    "arp": r"(^| )-(d|s)\b",
    "wg": r"\b(set|setconf|addconf|syncconf)\b",
    "wg-quick": r"\b(up|down|save)\b",
    "connmanctl": r"\b(disable|disconnect|config)\b",
    "macchanger": r"",
    "arpspoof": r"",
    "ettercap": r"",
    "bettercap": r"",
    "dhclient": r"(^| )-(r|x)\b",
    "ovpn": r"",
    "scutil": r"--(set|dns-set|prefs)",
    "wpa_cli": r"\b(disconnect|disable_network|remove_network|terminate|set)\b",
    "iwctl": r"\b(disconnect|forget|connect)\b",
    "vtysh": r"\b(conf|clear|no |shutdown|write)\b",
}
_NETWORK_PATTERNS = {name: re.compile(text) for name, text in _NETWORK.items()}
_NETWORK_SHOWN = re.compile(
    r"(-\w+ )*(addr|address|a|link|l|route|r|neigh|n|rule|netns)( (show|list|get|ls)|$)|(-\S+ )*(con\w*|dev\w*|general|"
    r"radio|c|d|g)( (show|status|list|wifi( list)?))?$|-h$|--help$|--version$"
)


def network(call: ProgramCall) -> ShellStream | None:
    """ip, ifconfig, route, nmcli, tc: cutting or changing the network."""
    text = " ".join(call.args)
    if call.name == "ip" and call.args[:2] == ["netns", "exec"]:
        call.ask("network", "it runs in another network")
        return call.judge_program(call.words[3:], lost=True)
    if _NETWORK_PATTERNS[call.name].search(text) and not _NETWORK_SHOWN.match(text):
        call.add_effect(EffectKind.ESCALATES)
        call.ask("network", "it cuts or changes the network")
    return None


_TURNED_OFF = word_set("HISTFILE HISTSIZE HISTFILESIZE")


def history(call: ProgramCall) -> None:
    """history, set +o history, unset HISTFILE, fc."""
    args = call.args
    if call.name == "history" and any(re.fullmatch(r"-[a-z]*[cdwr]\w*|clear|delete|--clear", text) for text in args):
        call.ask("traces", "it wipes or rewrites the history of commands")
    elif (call.name == "set" and "+o" in args and "history" in args) or (
        call.name == "unset" and _TURNED_OFF.intersection(args)
    ):
        call.ask("traces", "it turns off the history of commands")
    elif call.name == "unset":
        for text in args:
            call.state.variables.pop(text, None)


_LOGS: dict[str, str] = {
    "journalctl": r".*--(vacuum|rotate|flush|relinquish)",
    "logrotate": r".*(-f|--force)",
    "dmesg": r".*(-C\b|--clear|-c\b|-D\b|-n\b)",
    "atuin": r"(history (delete|prune)|account delete|wipe)",
    "zoxide": r"(?!)",
    "wevtutil": r"(cl|clear-log)",
    "auditctl": r".*(-e ?0|-D\b)",
    "auditpol": r".*/clear",
    "log": r"erase",
    "klogctl": r"",
    "utmpdump": r".*-r",
    "lastlog": r".*(-C|--clear|-S|--set)",
    "faillog": r".*-r",
    "clear_history": r"",
    "mcfly": r"(?!)",
}
_LOG_PATTERNS = {name: re.compile(text) for name, text in _LOGS.items()}


def logs(call: ProgramCall) -> ShellStream | None:
    """Programs that can wipe the traces of what was done."""
    if _LOG_PATTERNS[call.name].match(" ".join(call.args)):
        call.ask("traces", "it wipes or rewrites the records of what was done")
    return None


def unset(call: ProgramCall) -> ShellStream | None:
    """set, unset: `set` alone shows every variable."""
    history(call)
    if call.name == "set" and not call.args:
        return ShellStream(None, frozenset({SECRET}))
    if call.name == "set" and call.args[:1] == ["--"]:
        call.state.positional = list(call.words[1:])
    elif call.name == "set" and call.words and not call.args[0].startswith(("-", "+")):
        call.state.positional = list(call.words)
    return EMPTY_STREAM


_SHOW_ALONE = word_set(
    "hostnamectl timedatectl localectl hwclock bootctl mokutil swapon efibootmgr machinectl multipath cpupower setpci "
    "pw dscl semanage chage kmod"
)
"""Programs that only show something when they are given nothing."""


def shown_or_asks(rule: str, kind: EffectKind, reason: str, *showing: str) -> Rule:
    """A program that asks, unless it is only made to show something."""
    harmless = {"--help", "--version", "-h", "-V", *showing}

    def judge(call: ProgramCall) -> None:
        if harmless.intersection(call.args) or (not call.args and call.name in _SHOW_ALONE):
            return
        call.add_effect(kind, call.args)
        call.ask(rule, reason)

    return judge


_BOMB = "it takes all of the machine's processes or memory"
_LARGE = 8 << 30
_FLOODS: dict[str, str] = {
    # By program: words with which it asks too much of a host, or of this machine.
    "ab": r"",
    "wrk": r"",
    "wrk2": r"",
    "hey": r"",
    "siege": r"",
    "vegeta": r"attack",
    "bombardier": r"",
    "oha": r"",
    "h2load": r"",
    "httperf": r"",
    "autocannon": r"",
    "hping3": r".*(--flood|--faster|-i ?u)",
    "nping": r".*--(rate|flood)",
    "slowloris": r"",
    "slowhttptest": r"",
    "goldeneye": r"",
    "mz": r"",
    "t50": r"",
    "masscan": r"",
    "zmap": r"",
    "hydra": r"",
    "medusa": r"",
    "ncrack": r"",
    "patator": r"",
    "sqlmap": r"",
    "msfconsole": r"",
    "msfvenom": r"",
    "aircrack-ng": r"",
    "aireplay-ng": r"",
    "mdk4": r"",
    "nikto": r"",
    "gobuster": r"",
    "dirb": r"",
    "wfuzz": r"",
    "ffuf": r"",
}
_FLOOD_PATTERNS = {name: re.compile(text) for name, text in _FLOODS.items()}
_HERE = re.compile(r"\b(localhost|127\.0\.0\.1|\[::1\]|0\.0\.0\.0)\b")


def floods(call: ProgramCall) -> None:
    """Load makers and attack programs, against anything but this machine."""
    text = " ".join(call.args)
    if not call.args or call.args[0] in ("--help", "-h", "--version", "-V", "-v"):
        return
    if _FLOOD_PATTERNS[call.name].match(text) and not _HERE.search(text):
        call.add_effect(EffectKind.EXHAUSTS, call.args[-1:])
        call.ask("flood", "it may overload another host")


def pinged(call: ProgramCall) -> None:
    """ping -f."""
    options = call.parse_options("cIitWswlMmpQST")
    if options.has_option("f", "flood") or any(re.match(r"0?\.0", word.text) for word in options.option_values("i")):
        call.ask("flood", "it may overload another host")


def filled(call: ProgramCall) -> ShellStream | None:
    """fallocate, mkfile, stress: all of a disk, or of the memory."""
    if call.name in ("fallocate", "mkfile", "xfs_mkfile"):
        options = call.parse_options("lo", word_set("length offset"))
        sizes = [word.text for word in (*options.option_values("l", "length"), *options.operands[:1])]
        if any(size_of(text) > _LARGE for text in sizes):
            call.add_effect(EffectKind.EXHAUSTS)
            call.ask("fills", "it fills the disk")
        for word in options.operands[-1:]:
            call.judge_write(call.resolve_path(word))
        if options.has_option("p", "punch-hole", "c", "collapse-range", "z", "zero-range"):
            call.ask("emptied", "it takes pieces out of a file")
        return None
    if call.args and call.args[0] in ("--help", "--version"):
        return None
    call.add_effect(EffectKind.EXHAUSTS)
    call.ask("bomb", _BOMB)
    return None


def endless(call: ProgramCall) -> ShellStream | None:
    """Programs that read to the end before they go on, given something that has none."""
    if any(dataflow.is_endless_file(word.text) for word in call.words):
        call.add_effect(EffectKind.EXHAUSTS)
        call.ask("bomb", _BOMB)
    return None


def limits(call: ProgramCall) -> None:
    """ulimit, prlimit: nothing to ask; a limit taken away from others asks."""
    if call.name == "prlimit" and any("=" in text for text in call.args):
        call.ask("system", _CHANGES)


_NODES = re.compile(r"^[bc]$")


def nodes(call: ProgramCall) -> None:
    """mknod: a second door to a disk or to memory."""
    if any(_NODES.match(text) for text in call.args):
        call.add_effect(EffectKind.ESCALATES, call.args[:1])
        call.ask("raw-disk", "it makes another device file")


_SETTINGS: dict[str, str] = {
    # Programs that change the settings of a desktop or of the person, by which some things start by themselves.
    "gsettings": r"(set|reset\S*)\b",
    "dconf": r"(write|reset|load)\b",
    "defaults": r"(.* )?(write|delete|import)\b",
    "xdg-mime": r"default",
    "xdg-settings": r"set",
    "xdg-icon-resource": r"(?!)",
    "kwriteconfig5": r"",
    "kwriteconfig6": r"",
    "xfconf-query": r".*(-s|--set|-r|--reset)\b",
    "plutil": r"-(replace|insert|remove|convert)",
    "PlistBuddy": r".*(set|add|delete)",
    "crudini": r".*--(set|del|merge)",
    "augtool": r".*\b(set|rm|ins|save)\b",
    "debconf-set-selections": r"",
    "systemd-tmpfiles": r".*--(remove|clean|purge)",
    "direnv": r"(allow|permit|grant)\b",
    "update-rc.d": r"",
    "systemd-sysusers": r"",
    "systemd-firstboot": r"",
    "authselect": r"(select|enable-feature|disable-feature)",
    "pam-auth-update": r"",
    "update-ca-certificates": r"",
    "trust": r"(anchor|extract)",
    "sysrc": r".*=",
    "nvram": r"\S+=",
    "tccutil": r"reset",
    "systemsetup": r"-set",
    "kextload": r"",
    "kextunload": r"",
    "profiles": r".*(install|remove|-I|-R)",
    "osacompile": r"(?!)",
}
_SETTING_PATTERNS = {name: re.compile(text) for name, text in _SETTINGS.items()}
_FILE_SETTERS = word_set("crudini augtool PlistBuddy plutil")


def settings(call: ProgramCall) -> ShellStream | None:
    """gsettings, defaults, crudini and their like."""
    if _SETTING_PATTERNS[call.name].match(" ".join(call.args)):
        if call.name in _FILE_SETTERS:
            for word in call.words:
                if word.text.startswith(("/", "~")):
                    call.judge_write(call.resolve_path(word))
            return None
        call.add_effect(EffectKind.PERSISTS, call.args[:2])
        call.ask("time" if call.name != "trust" else "wall", _LATER)
    return None


def _asks(rule: str, kind: EffectKind, reason: str, names: str, *showing: str) -> dict[str, Rule]:
    return dict.fromkeys(word_set(names), shown_or_asks(rule, kind, reason, *showing))


RULES: dict[str, Rule] = {
    **dict.fromkeys(("crontab", "fcrontab", "at", "batch", "atrm"), jobs),
    **dict.fromkeys(("mount", "umount", "losetup"), mounts),
    "sysctl": parameters,
    **dict.fromkeys(("iptables", "ip6tables", "ebtables", "arptables", *_WALLS), firewall),
    **dict.fromkeys(_NETWORK, network),
    "history": history,
    **dict.fromkeys(_LOGS, logs),
    **dict.fromkeys(("unset", "set"), unset),
    **dict.fromkeys(("stress", "stress-ng", "fallocate", "mkfile", "xfs_mkfile", "memtester", "sysbench-fill"), filled),
    **dict.fromkeys(_FLOODS, floods),
    "ping": pinged,
    **dict.fromkeys(
        word_set("sha256sum sha512sum sha1sum md5sum b2sum cksum sha224sum shasum wc uniq od-all gzip bzip2 xz zstd"),
        endless,
    ),
    "prlimit": limits,
    "mknod": nodes,
    **dict.fromkeys(_SETTINGS, settings),
    **_asks(
        "users",
        EffectKind.ESCALATES,
        "it changes who may use the machine",
        "useradd userdel usermod adduser deluser groupadd groupdel groupmod gpasswd chpasswd "
        "chgpasswd visudo vipw vigr "
        "chsh chfn newusers dscl sysadminctl chage pwconv pwunconv grpconv faillock delgroup addgroup lchage luseradd "
        "luserdel lpasswd pw rmuser ypchsh htpasswd-root smbpasswd pdbedit samba-tool kadmin kadmin.local ipa "
        "ldapmodify ldapdelete ldapadd ldappasswd saslpasswd2 ssh-copy-id ssh-import-id pwck grpck "
        "pam_tally2 sss_cache "
        "dseditgroup dsenableroot",
        "-l",
        "--list",
        "-read",
        "-r",
        "-S",
        "-n",
        "list",
    ),
    **_asks("users", EffectKind.ESCALATES, "it changes who may use the machine", "passwd", "-S", "--status"),
    **_asks(
        "system",
        EffectKind.ESCALATES,
        _CHANGES,
        "modprobe rmmod insmod depmod update-initramfs mkinitcpio dracut grub-install update-grub kmod dkms "
        "grub-mkconfig grub2-mkconfig grub2-install grubby tune2fs lilo extlinux syslinux grub-set-default grub-reboot "
        "swapoff swapon fsfreeze hdparm efibootmgr setcap bootctl mokutil debugfs resize2fs xfs_repair csrutil spctl "
        "update-alternatives hostnamectl timedatectl localectl aa-teardown aa-disable aa-complain dpkg-reconfigure "
        "pivot_root sg_format zerofree xfs_growfs e2fsck fsck fsck.ext4 reiserfsck ntfsfix e4defrag "
        "hwclock ntpdate date-set setserial setpci flashrom fwupdtool mcopy-root ldconfig "
        "alternatives chcon restorecon "
        "semanage semodule teamd dmsetup multipath kpartx partprobe sfill growpart rpcdebug bpftool bpftrace "
        "ftrace-set trace-cmd livepatch kpatch ksplice kexec-load zramctl cgdelete cgset cset tuned-adm cpupower "
        "nvidia-smi-reset turbostat wrmsr pcie-reset isolate setkeycodes loadkeys chvt",
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
        "-s",
        "-i",
        "-p",
        "show",
        "ls",
        "info",
        "-ls",
        "--query",
    ),
    **_asks(
        "wall",
        EffectKind.ESCALATES,
        "it turns a protection off",
        "setsebool apparmor_parser aa-remove-unknown fdesetup gatekeeper",
        "-l",
        "-s",
        "status",
    ),
    **_asks(
        "rights",
        EffectKind.ESCALATES,
        "it runs with another user's rights",
        "pkexec capsh machinectl run0 dzdo pfexec ksu calife super please gksudo gksu kdesu kdesudo sudoedit sudo_root "
        "newuidmap newgidmap",
        "list",
        "--print",
        "status",
        "show",
    ),
    **_asks(
        "kill-unknown",
        EffectKind.KILLS,
        "it takes control of other processes",
        "gcore reptyr crash injcode frida frida-trace dtrace stap",
        "-batch-help",
        "-l",
    ),
    **_asks(
        "tunnel",
        EffectKind.SENDS,
        "it opens this machine to others",
        "tmate upterm teleconsole sshx ttyd gotty wetty shellinaboxd webssh sish serveo pagekite rathole inlets "
        "ligolo pwncat evil-winrm dnscat dnscat2 iodine iodined ptunnel sshuttle-server x11vnc "
        "vncserver tightvncserver "
        "xrdp rustdesk anydesk teamviewer chisel-server gsocket gs-netcat revsocks x0vncserver wayvnc krfb",
        "--help",
        "version",
        "-l",
    ),
}
