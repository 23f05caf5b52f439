"""Rules that are only words: programs that always ask, and words that ask when they follow a program in this order."""

from collections.abc import Iterator

_REASONS = {
    "stops": "it stops what the machine needs",
    "loses": "it deletes or stops what others may need",
    "opens": "it gives a container power over this machine",
    "wall": "it opens the firewall, or turns a protection off",
    "net": "it cuts the network",
    "time": "it changes what runs later by itself",
    "system": "it changes the running system",
    "users": "it changes who may use the machine",
    "rights": "it runs with another user's rights",
    "destroys": "it destroys files or databases for good",
    "publishes": "it publishes, or takes back what was published",
    "traces": "it wipes or rewrites the history of commands",
    "raw": "it runs a raw connection or a transfer script",
    "fills": "it fills the disk",
}

_ALWAYS = """
rights: sudo doas su pkexec runas gosu
users: useradd userdel usermod adduser deluser groupadd groupdel gpasswd passwd chpasswd visudo vipw chsh newusers
system: modprobe rmmod insmod kexec update-initramfs grub-install update-grub tune2fs losetup swapoff fsfreeze hdparm
system: efibootmgr chroot setcap
destroys: shred wipe scrub dropdb dropuser
stops: halt hibernate vssadmin taskkill powershell gdb fuser
"""

_FLOOR = {
    "shutdown": "", "reboot": "", "poweroff": "", "halt": "", "init": "0 6", "telinit": "0 6",
    "systemctl": "reboot poweroff halt kexec",
}  # fmt: skip

_SEQUENCES = """
stops systemctl: stop, disable, mask, kill, isolate, rescue, suspend, hibernate, edit
stops service: stop
stops sv: down, stop
stops initctl: stop
stops launchctl: load, unload, bootout, bootstrap, remove
stops loginctl: terminate*
time loginctl: enable-linger
time at: -f
wall iptables: -F, --flush, -P
wall ip6tables: -F, --flush
wall nft: flush
wall ufw: disable, reset
wall setenforce: 0
net ifconfig: down
net ip: link set down, route flush, route del, addr flush
system sysctl: -w, -p*
system mount: --bind, -o, /dev/*, --rbind, --move
system umount: *
loses kubectl: delete, drain, cordon, scale, replace, exec
loses helm: uninstall, delete, rollback
loses terraform: destroy, apply -auto-approve, state rm, apply -destroy*
loses tofu: destroy, apply -auto-approve
loses pulumi: destroy, up --yes, stack rm
loses cdk: destroy
loses aws: s3 rm, s3 rb, * delete*, * terminate*, * stop-instances, s3 sync --delete, * purge*
loses gcloud: delete, * delete, reset
loses gsutil: rm, rb
loses az: delete, purge
loses doctl: delete
loses heroku: *:destroy, pg:reset
loses gh: repo delete, release delete, secret set, secret delete, api -X DELETE
loses vault: delete, destroy
loses redis-cli: FLUSHALL, FLUSHDB, flushall, flushdb
loses docker: system prune, volume rm, volume prune, image prune -a*, container prune, network prune, kill, swarm leave
loses docker: rm -f*, rm -v*, compose down -v*, compose down --volumes, service rm, stack rm, builder prune -a*, rmi -f*
opens docker: run --privileged, run --device*, run --pid=host, run --cap-add*, run -v /*, run --volume /*, run -v/*
opens docker: run --security-opt*, run --net=host, run --mount*, run --volume=/*, run --userns=host, exec --privileged
loses podman: system prune, system reset, volume rm, volume prune, rm -f*, kill
opens podman: run --privileged, run --device*, run -v /*, run --volume /*, run --pid=host
loses apt: purge, remove, autoremove
loses apt-get: purge, remove, autoremove
loses dpkg: --purge, -P, --remove, -r
loses yum: remove, erase
loses dnf: remove, erase
loses pacman: -R*
loses zypper: remove, rm
loses apk: del
loses brew: uninstall --force
loses zpool: destroy, labelclear
loses zfs: destroy, rollback
loses lvremove: *
loses vgremove: *
loses pvremove: *
loses mdadm: --stop, --zero-superblock
loses reg: delete
users net: user
publishes npm: publish, unpublish
publishes twine: upload
traces history: -c, -w, -d
raw lftp: -e
raw openssl: s_client -quiet
fills fallocate: -l
"""


def words(text: str) -> frozenset[str]:
    """The words of a text, as a set."""
    return frozenset(text.split())


def _rows(table: str) -> Iterator[tuple[list[str], str]]:
    for line in table.strip().splitlines():
        head, _, rest = line.partition(": ")
        yield head.split(), rest


def _sequences() -> dict[str, list[tuple[tuple[str, ...], str]]]:
    table: dict[str, list[tuple[tuple[str, ...], str]]] = {}
    for (reason, program), rest in _rows(_SEQUENCES):
        table.setdefault(program, []).extend((tuple(part.split()), _REASONS[reason]) for part in rest.split(", "))
    return table


ALWAYS: dict[str, str] = {name: _REASONS[head[0]] for head, rest in _rows(_ALWAYS) for name in rest.split()}
"""Programs that ask whatever their arguments, with the reason."""

FLOOR: dict[str, frozenset[str]] = {name: words(text) for name, text in _FLOOR.items()}
"""Programs that are never run with one of these words; with none given: never at all."""

SEQUENCES = _sequences()
"""By program: words that ask when they follow in this order, with the reason. `*` ends a beginning."""

NETWORK = words("curl wget nc ncat netcat socat ftp sftp http https telnet mail sendmail")
"""Programs that send what they are given elsewhere."""
