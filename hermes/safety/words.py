"""Rules that are only words: programs that always ask, and words of a program that ask when they follow in this order."""

_STOPS = "it stops what the machine needs"
_LOSES = "it deletes or stops what others may need"
_OPEN = "it gives a container power over this machine"

ALWAYS: dict[str, str] = {
    **dict.fromkeys(("sudo", "doas", "su", "pkexec", "runas", "gosu"), "it runs with another user's rights"),
    **dict.fromkeys(("useradd", "userdel", "usermod", "adduser", "deluser", "groupadd", "groupdel", "gpasswd", "passwd", "chpasswd",
                     "visudo", "vipw", "chsh", "newusers"), "it changes who may use the machine"),
    **dict.fromkeys(("modprobe", "rmmod", "insmod", "kexec", "update-initramfs", "grub-install", "update-grub", "tune2fs", "losetup",
                     "swapoff", "fsfreeze", "hdparm", "efibootmgr", "chroot"), "it changes the running system"),
    **dict.fromkeys(("shred", "wipe", "scrub"), "it destroys files for good"),
    **dict.fromkeys(("dropdb", "dropuser"), "it deletes a database or its users"),
    **dict.fromkeys(("halt", "hibernate", "vssadmin", "taskkill", "powershell", "gdb", "fuser"), _STOPS),
}  # fmt: skip

FLOOR: dict[str, tuple[str, ...]] = {
    "shutdown": ("",), "reboot": ("",), "poweroff": ("",), "halt": ("",),
    "init": ("0", "6"), "telinit": ("0", "6"),
    "systemctl": ("reboot", "poweroff", "halt", "kexec"),
}  # fmt: skip

SEQUENCES: dict[str, tuple[tuple[str, str], ...]] = {
    "systemctl": tuple((verb, _STOPS) for verb in ("stop", "disable", "mask", "kill", "isolate", "rescue", "suspend", "hibernate", "edit")),
    "service": (("stop", _STOPS),),
    "sv": (("down", _STOPS), ("stop", _STOPS)),
    "initctl": (("stop", _STOPS),),
    "crontab": (("-r", "it deletes the timetable"), ("-", "it replaces the timetable"), ("/dev/null", "it empties the timetable")),
    "at": (("-f", "it runs something later"),),
    "loginctl": (("enable-linger", "it lets programs run without a login"), ("terminate*", _STOPS)),
    "launchctl": tuple((verb, _STOPS) for verb in ("load", "unload", "bootout", "bootstrap", "remove")),
    "iptables": (("-F", "it opens the firewall"), ("--flush", "it opens the firewall"), ("-P", "it changes the firewall")),
    "ip6tables": (("-F", "it opens the firewall"), ("--flush", "it opens the firewall")),
    "nft": (("flush", "it opens the firewall"),),
    "ufw": (("disable", "it opens the firewall"), ("reset", "it opens the firewall")),
    "setenforce": (("0", "it turns a protection off"),),
    "ifconfig": (("down", "it cuts the network"),),
    "ip": (("link set down", "it cuts the network"), ("route flush", "it cuts the network"), ("route del", "it cuts the network"),
           ("addr flush", "it cuts the network")),
    "sysctl": (("-w", "it changes the running system"), ("-p*", "it changes the running system")),
    "mount": tuple((word, "it changes what folders hold") for word in ("--bind", "-o", "/dev/*", "--rbind", "--move")),
    "umount": (("*", "it takes a disk away"),),
    "kubectl": tuple((verb, _LOSES) for verb in ("delete", "drain", "cordon", "scale", "replace", "exec")),
    "helm": tuple((verb, _LOSES) for verb in ("uninstall", "delete", "rollback")),
    "terraform": (("destroy", _LOSES), ("apply -auto-approve", _LOSES), ("state rm", _LOSES), ("apply -destroy*", _LOSES)),
    "tofu": (("destroy", _LOSES), ("apply -auto-approve", _LOSES)),
    "pulumi": (("destroy", _LOSES), ("up --yes", _LOSES), ("stack rm", _LOSES)),
    "cdk": (("destroy", _LOSES),),
    "aws": tuple((words, _LOSES) for words in ("s3 rm", "s3 rb", "* delete*", "* terminate*", "* stop-instances", "s3 sync --delete", "* purge*")),
    "gcloud": (("delete", _LOSES), ("* delete", _LOSES), ("reset", _LOSES)),
    "gsutil": (("rm", _LOSES), ("rb", _LOSES)),
    "az": (("delete", _LOSES), ("purge", _LOSES)),
    "doctl": (("delete", _LOSES),),
    "heroku": (("*:destroy", _LOSES), ("pg:reset", _LOSES)),
    "gh": (("repo delete", _LOSES), ("release delete", _LOSES), ("secret set", _LOSES), ("secret delete", _LOSES), ("api -X DELETE", _LOSES)),
    "vault": (("delete", _LOSES), ("destroy", _LOSES)),
    "redis-cli": (("FLUSHALL", _LOSES), ("FLUSHDB", _LOSES), ("flushall", _LOSES), ("flushdb", _LOSES)),
    "docker": tuple((words, _LOSES) for words in (
        "system prune", "volume rm", "volume prune", "image prune -a*", "container prune", "network prune", "kill", "swarm leave",
        "rm -f*", "rm -v*", "compose down -v*", "compose down --volumes", "service rm", "stack rm", "builder prune -a*", "rmi -f*"))
    + tuple((words, _OPEN) for words in (
        "run --privileged", "run --device*", "run --pid=host", "run --cap-add*", "run -v /*", "run --volume /*", "run -v/*",
        "run --security-opt*", "run --net=host", "run --mount*", "run --volume=/*", "run --userns=host", "exec --privileged")),
    "podman": tuple((words, _LOSES) for words in ("system prune", "system reset", "volume rm", "volume prune", "rm -f*", "kill"))
    + tuple((words, _OPEN) for words in ("run --privileged", "run --device*", "run -v /*", "run --volume /*", "run --pid=host")),
    "apt": (("purge", _LOSES), ("remove", _LOSES), ("autoremove", _LOSES)),
    "apt-get": (("purge", _LOSES), ("remove", _LOSES), ("autoremove", _LOSES)),
    "dpkg": (("--purge", _LOSES), ("-P", _LOSES), ("--remove", _LOSES), ("-r", _LOSES)),
    "yum": (("remove", _LOSES), ("erase", _LOSES)),
    "dnf": (("remove", _LOSES), ("erase", _LOSES)),
    "pacman": (("-R*", _LOSES),),
    "zypper": (("remove", _LOSES), ("rm", _LOSES)),
    "apk": (("del", _LOSES),),
    "brew": (("uninstall --force", _LOSES),),
    "npm": (("publish", "it publishes"), ("unpublish", "it takes a package back")),
    "twine": (("upload", "it publishes"),),
    "history": (("-c", "it wipes the history"), ("-w", "it rewrites the history"), ("-d", "it wipes the history")),
    "zpool": (("destroy", _LOSES), ("labelclear", _LOSES)),
    "zfs": (("destroy", _LOSES), ("rollback", _LOSES)),
    "lvremove": (("*", _LOSES),),
    "vgremove": (("*", _LOSES),),
    "pvremove": (("*", _LOSES),),
    "mdadm": (("--stop", _LOSES), ("--zero-superblock", _LOSES)),
    "lftp": (("-e", "it runs a transfer script"),),
    "fallocate": (("-l", "it fills the disk"),),
    "reg": (("delete", _LOSES),),
    "net": (("user", "it changes who may use the machine"),),
    "openssl": (("s_client -quiet", "it opens a raw connection"),),
}  # fmt: skip

NETWORK = frozenset("curl wget nc ncat netcat socat scp rsync ftp sftp http https telnet mail sendmail".split()) - {"rsync", "scp"}
