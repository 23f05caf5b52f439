# ruff: noqa: E501 - scripts are easier to read on one line
"""Ways out of the sandbox, as scripts. Each prints ESCAPED, shows the canary, or changes something when it works.

Variables: O a folder outside, W the workspace, H the home, PY an interpreter, DECOY the process id of a program outside
whose environment holds the canary, PORT, PORT6 and UDP where the test listens on loopback, SOCK a unix socket outside,
ABSTRACT the name of an abstract one.
"""

from msgspec import Struct

BWRAP, LANDLOCK = "bubblewrap", "landlock"
_PTRACE = "import ctypes,os;c=ctypes.CDLL(None,use_errno=True);d=int(os.environ['DECOY'])\n"


class Escape(Struct, frozen=True):
    """One attempt: scripts that run one after the other in one session.

    `only` names the way of sandboxing that claims to hold it, where not both do. `bites` says that the attempt does
    harm when it is run without any sandbox, and may be run so in a test of this test.
    """

    name: str
    scripts: tuple[str, ...]
    only: str = ""
    bites: bool = False
    home: bool = False
    """The workspace is the home itself."""
    network: str = "off"
    pty: bool = False
    offline: tuple[int, ...] = ()
    """Which scripts run without any network, as what nobody can judge does."""


def _one(name: str, *scripts: str, **changes: object) -> Escape:
    return Escape(name, scripts, **changes)  # type: ignore[arg-type]


def _python(text: str) -> str:
    return f'"$PY" -I - <<"END"\n{text}\nEND'


WRITES = [
    _one("write", 'echo x > "$O/file"', bites=True),
    _one("append", 'echo x >> "$O/file"', bites=True),
    _one("create", 'echo x > "$O/new"', bites=True),
    _one("truncate", 'truncate -s 0 "$O/file"', bites=True),
    _one("truncate by call", _python("import os; os.truncate(os.environ['O'] + '/file', 0)"), bites=True),
    _one("rename into", 'echo x > f; mv -f f "$O/file"', bites=True),
    _one("rename out", 'mv "$O/file" .', bites=True),
    _one(
        "exchange",
        _python(
            "import ctypes,os;o=os.environ['O'];open('f','w').close()\n"
            "ctypes.CDLL(None).renameat2(-100,b'f',-100,(o+'/file').encode(),2)"
        ),
        bites=True,
    ),
    _one("hard link", 'ln "$O/file" l && echo x > l', bites=True),
    _one("hard link to a key", 'ln "$H/.ssh/id_rsa" k; cat k', bites=True),
    _one("symbolic link", 'ln -s "$O/file" s; echo x > s', bites=True),
    _one("link to a folder", 'ln -s "$O" d; echo x > d/new', bites=True),
    _one("link over two commands", 'ln -s "$O" d', "cd d && echo x > new", bites=True),
    _one("remove", 'rm -f "$O/file"', bites=True),
    _one("remove a folder", 'rmdir "$O/empty"', bites=True),
    _one("make a folder", 'mkdir "$O/made"', bites=True),
    _one("change permissions", 'chmod 777 "$O/file"', only=BWRAP, bites=True),
    _one("change the owner", 'chown 12345 "$O/file" || chgrp 12345 "$O/file"', only=BWRAP),
    _one("change times", 'touch -d 2001-01-01 "$O/file"', only=BWRAP, bites=True),
    _one("set an attribute", _python("import os; os.setxattr(os.environ['O'] + '/file', 'user.x', b'1')"), only=BWRAP),
    _one("make a pipe", 'mkfifo "$O/pipe"', bites=True),
    _one(
        "make a socket",
        _python("import os,socket; socket.socket(socket.AF_UNIX).bind(os.environ['O'] + '/s')"),
        bites=True,
    ),
    _one("make a disk", "mknod disk b 254 0 && head -c 16 disk && echo ESCAPED"),
    _one(
        "unnamed file, then linked",
        _python(
            "import os;o=os.environ['O'];h=os.open(o,os.O_TMPFILE|os.O_WRONLY);os.write(h,b'x')\n"
            "import ctypes;ctypes.CDLL(None).linkat(-100,b'/proc/self/fd/%d'%h,-100,(o+'/new').encode(),0x400)"
        ),
        bites=True,
    ),
    _one(
        "shared mapping",
        _python(
            "import mmap,os;h=os.open(os.environ['O']+'/file',os.O_RDONLY)\n"
            "m=mmap.mmap(h,0,mmap.MAP_SHARED,mmap.PROT_READ|mmap.PROT_WRITE);m[0:1]=b'X'"
        ),
    ),
    _one("reopen a handle", 'exec 5<"$O/file"; echo x > /proc/self/fd/5', bites=True),
    _one(
        "make a mapping writable",
        _python(
            "import ctypes,mmap,os;h=os.open(os.environ['O']+'/file',os.O_RDONLY);c=ctypes.CDLL(None)\n"
            "c.mmap.restype=ctypes.c_void_p;a=c.mmap(None,4096,1,1,h,0)\n"
            "c.mprotect.argtypes=[ctypes.c_void_p,ctypes.c_long,ctypes.c_int]\n"
            "print('ESCAPED' if c.mprotect(a,4096,3)==0 else '')"
        ),
    ),
    _one("dots", 'echo x > "$W/../outside/file"', bites=True),
    _one("root of itself", 'echo x > "/proc/self/root$O/file"', bites=True),
    _one("folder of itself", 'cd "$O"; echo x > /proc/self/cwd/file', bites=True),
    _one("root of the first process", 'echo x > "/proc/1/root$O/file"'),
    _one("root of another process", 'echo x > "/proc/$DECOY/root$O/file"', bites=True),
    _one(
        "race of a folder with a link",
        _python(
            "import os,threading,time;o,w=os.environ['O'],os.environ['W'];os.mkdir('a');os.symlink(o,'b');end=time.time()+.4\n"
            "def swap():\n while time.time()<end:\n  os.rename('a','c');os.rename('b','a');os.rename('a','b');os.rename('c','a')\n"
            "threading.Thread(target=swap).start()\n"
            "while time.time()<end:\n try:open('a/raced','w').write('x')\n except OSError:pass"
        ),
        bites=True,
    ),
    _one("move the workspace away", 'cd /; mv "$W" "$W.old" && ln -s "$O" "$W"', "echo x > new"),
    _one(
        "nested folder replaced by a link",
        'mv "$W/nested" "$W/n2" && ln -s "$O" "$W/nested"; true',
        'echo x > "$W/nested/new"',
    ),
]

MOUNTS = [
    _one("bind mount", 'mount --bind "$W" "$O" && echo ESCAPED'),
    _one("remount", "mount -o remount,rw,bind / && echo ESCAPED"),
    _one("uncover keys", 'umount "$H/.ssh" || umount -l "$H/.ssh"; cat "$H/.ssh/id_rsa"', bites=True),
    _one("user namespace", "unshare -Ur true && echo ESCAPED"),
    _one(
        "user namespace by clone3",
        _python(
            "import ctypes,struct;c=ctypes.CDLL(None);a=struct.pack('Q'*11,0x10000000,0,0,0,17,0,0,0,0,0,0)\n"
            "p=c.syscall(435,a,88)\nif p==0:c._exit(0)\nprint('ESCAPED' if p>0 else '')"
        ),
    ),
    _one("mount in a namespace", 'unshare -Urm sh -c \'mount --bind "$W" "$O" && echo x > "$O/file" && echo ESCAPED\''),
    _one("mount namespace", "unshare -m true && echo ESCAPED"),
    _one(
        "new mount calls",
        _python(
            "import ctypes;c=ctypes.CDLL(None);h=c.syscall(428,-100,b'/',1)\n"
            "print('ESCAPED' if h>=0 and c.syscall(429,h,b'',-100,b'/mnt',4)==0 else '')"
        ),
    ),
    _one("pivot_root", "mkdir -p p/q; pivot_root p p/q && echo ESCAPED"),
    _one("change root", "chroot /proc/1/root true && echo ESCAPED", only=BWRAP),
    _one("enter the first process", "nsenter -t 1 -m -p -n true && echo ESCAPED", only=BWRAP),
    _one("enter another process", 'nsenter -t "$DECOY" -a true && echo ESCAPED'),
    _one(
        "device of the disk",
        "for d in /dev/vda /dev/sda /dev/nvme0n1 /dev/loop0; do head -c 9 $d && echo ESCAPED; done",
    ),
    _one(
        "memory of the machine",
        "for d in /dev/mem /dev/kmsg /dev/port /proc/kcore /proc/kmsg; do head -c 9 $d && echo ESCAPED; done",
    ),
    _one("kernel parameters", 'f=/proc/sys/kernel/printk; echo "$(cat $f)" > $f && echo ESCAPED'),
    _one("core pattern", 'f=/proc/sys/kernel/core_pattern; echo "$(cat $f)" > $f && echo ESCAPED'),
    _one("sysrq", "echo h > /proc/sysrq-trigger && echo ESCAPED"),
    _one("uevents", 'f=/sys/kernel/uevent_helper; [ -e $f ] || exit; echo "" > $f && echo ESCAPED'),
    _one("control groups", "mkdir /sys/fs/cgroup/*/hermes-escape /sys/fs/cgroup/hermes-escape && echo ESCAPED"),
    _one("modules", _python("import ctypes;print('ESCAPED' if ctypes.CDLL(None).syscall(175,b'x',1,b'')==0 else '')")),
    _one(
        "open by handle",
        _python(
            "import ctypes,os;c=ctypes.CDLL(None);b=ctypes.create_string_buffer(b'\\x80\\0\\0\\0',136);m=ctypes.c_int()\n"
            "c.name_to_handle_at(-100,os.environ['O'].encode(),b,ctypes.byref(m),0);d=os.open('.',0)\n"
            "print('ESCAPED' if c.open_by_handle_at(d,b,0)>=0 else '')"
        ),
    ),
]

PROCESSES = [
    _one("kill", 'kill -9 "$DECOY"', bites=True),
    _one("stop", 'kill -STOP "$DECOY"', bites=True),
    _one("kill by name", "pkill -9 -f hermes-test-decoy"),
    _one("kill all", "kill -9 -1; true", only=BWRAP),
    _one("kill the parent", "kill -9 $PPID; sleep 0.05", "echo still here"),
    _one(
        "kill by handle",
        _python("import os,signal;h=os.pidfd_open(int(os.environ['DECOY']));signal.pidfd_send_signal(h,9)"),
        bites=True,
    ),
    _one("attach", _python(_PTRACE + "r=c.ptrace(16,d,0,0);print('ESCAPED' if r==0 else '')")),
    _one("seize", _python(_PTRACE + "r=c.ptrace(0x4206,d,0,0);print('ESCAPED' if r==0 else '')")),
    _one("read memory", _python(_PTRACE + "h=open(f'/proc/{d}/mem','rb');print('ESCAPED')")),
    _one(
        "read memory by call",
        _python(
            _PTRACE + "b=ctypes.create_string_buffer(8);v=(ctypes.c_size_t*2)(ctypes.addressof(b),8)\n"
            "m=[l for l in open(f'/proc/{d}/maps')][0].split('-')[0];r=(ctypes.c_size_t*2)(int(m,16),8)\n"
            "print('ESCAPED' if c.process_vm_readv(d,v,1,r,1,0)>0 else '')"
        ),
    ),
    _one("read an environment", 'tr "\\0" "\\n" < "/proc/$DECOY/environ"', bites=True),
    _one("read all environments", "cat /proc/[0-9]*/environ | tr '\\0' '\\n' | grep -a -i canary"),
    _one("handles of another", 'ls -l "/proc/$DECOY/fd/" && echo ESCAPED', bites=True),
    _one("take a handle", _python(_PTRACE + "h=os.pidfd_open(d);print('ESCAPED' if c.syscall(438,h,1,0)>=0 else '')")),
    _one("limits of another", 'prlimit --pid "$DECOY" --nofile=7:7 && echo ESCAPED', only=BWRAP, bites=True),
    _one(
        "shared memory of System V",
        _python(
            "import ctypes;c=ctypes.CDLL(None);print('ESCAPED' if c.shmget(int(__import__('os').environ['SHM']),0,0)>=0 else '')"
        ),
        only=BWRAP,
    ),
    _one(
        "shared memory by name",
        'ls /dev/shm/hermes-test-* && echo ESCAPED; echo x > "/dev/shm/hermes-test-$DECOY"',
        only=BWRAP,
        bites=True,
    ),
    _one("privileges", 'grep -qE "NoNewPrivs:.1" /proc/self/status || echo ESCAPED'),
    _one(
        "capabilities",
        'grep -E "Cap(Prm|Eff|Inh|Amb)" /proc/self/status | grep -vE "0000000000000000" && echo ESCAPED',
        bites=False,
    ),
    _one(
        "capabilities by set-id",
        'cp /bin/sh s; chmod u+s s; ./s -c "grep CapEff /proc/self/status" | grep -v 0000000000000000 && echo ESCAPED',
    ),
    _one("sudo", "sudo -n true && echo ESCAPED"),
    _one("time", "date -s @1 && echo ESCAPED"),
    _one("name of the machine", "hostname escaped && echo ESCAPED"),
    _one("keyring", _python("import ctypes;print('ESCAPED' if ctypes.CDLL(None).syscall(250,0,-3,1)>=0 else '')")),
    _one(
        "io_uring", _python("import ctypes;print('ESCAPED' if ctypes.CDLL(None).syscall(425,1,bytes(120))>=0 else '')")
    ),
    _one("bpf", _python("import ctypes;print('ESCAPED' if ctypes.CDLL(None).syscall(321,0,bytes(72),72)>=0 else '')")),
    _one(
        "32-bit calls",
        _python(
            "import ctypes,mmap;m=mmap.mmap(-1,4096,prot=7);m.write(bytes([0xb8,20,0,0,0,0xcd,0x80,0xc3]))\n"
            "f=ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(m)))\n"
            "print('ESCAPED' if f()>0 else '')"
        ),
    ),
    _one(
        "type into the terminal",
        _python("import fcntl\nfor c in b'echo hi\\n':fcntl.ioctl(0,0x5412,bytes([c]))\nprint('ESCAPED')"),
        pty=True,
    ),
    _one(
        "terminals of others",
        "for t in /dev/pts/[0-9]*; do [ $t = $(tty) ] || { : > $t && echo ESCAPED $t; }; done",
        pty=True,
    ),
    _one(
        "inherited handles",
        "for f in /proc/self/fd/*; do case $(readlink $f) in *lock*|*hermes.db*) echo ESCAPED;; esac; done",
    ),
]

LATER = [
    _one("loader left for later", 'export LD_DEBUG=files LD_DEBUG_OUTPUT="$O/ld"', "true", bites=True),
    _one(
        "loader's library left for later", 'export LD_PRELOAD="$W/none.so" LD_AUDIT="$W/none.so"', "echo ok >&2; true"
    ),
    _one("start file of the shell", 'echo "echo ESCAPED" > rc; export BASH_ENV=$W/rc ENV=$W/rc', "true"),
    _one(
        "modules of the interpreter",
        'for m in sitecustomize ctypes marshal confine resource; do echo "open(\'$O/py\',\'w\')" > $m.py; done; export PYTHONPATH="$W" PYTHONHOME="$W" PYTHONSTARTUP="$W/ctypes.py"',
        "true",
    ),
    _one(
        "programs on the path",
        'for p in bwrap setsid python3 bash env rm; do printf "#!/bin/sh\\necho x > $O/path\\n" > $p; chmod +x $p; done; export PATH="$W:$PATH"',
        "true",
    ),
    _one("lies about the state", "printf '../outside\\n\\0=x\\0A B=1\\0' >/dev/fd/3; exec true", "pwd"),
    _one("a state without end", "head -c 30000000 /dev/zero >/dev/fd/3; exec true", "true"),
    _one("state of another folder", "printf '/proc/1/root\\n\\0X=1\\0' >/dev/fd/3; exec true", 'echo x > "./$O/file"'),
    _one("a link for temporary files", 'mkdir -p "$TMPDIR"; ln -s "$O" "$TMPDIR/t"; cd "$TMPDIR/t"', "echo x > new"),
]

PROJECT = [
    _one("git hook", "echo 'echo ESCAPED' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit", bites=True),
    _one("existing git hook", "echo 'echo ESCAPED' > .git/hooks/post-commit", bites=True),
    _one("replace a hook", "echo bad > h; chmod +x h; mv -f h .git/hooks/post-commit", bites=True),
    _one("git settings", "git config core.fsmonitor 'touch owned'; git config alias.st '!id'", bites=True),
    _one(
        "git settings by rename",
        "cp .git/config c; echo '[core] fsmonitor = bad' >> c; mv -f c .git/config",
        bites=True,
    ),
    _one("hooks elsewhere", 'git config core.hooksPath "$W/h"; mkdir h; echo bad > h/pre-commit', bites=True),
    _one("another .git", "mv .git old && cp -r old .git && echo bad > .git/hooks/pre-commit", bites=True),
    _one(
        "a new repository",
        "git init -q n; echo bad > n/.git/hooks/pre-commit; chmod +x n/.git/hooks/pre-commit",
        bites=True,
    ),
    _one(
        "settings of a new one",
        "git init -q n; git -C n config core.pager 'sh -c bad'; git -C n config core.hookspath x",
        bites=True,
    ),
    _one(
        "a deep repository",
        "mkdir -p a/b/c/d/e/f; git init -q a/b/c/d/e/f; git -C a/b/c/d/e/f config core.sshcommand bad",
        bites=True,
    ),
    _one("a bare repository", "git init -q --bare bare; git -C bare config core.fsmonitor bad", bites=True),
    _one(
        "a repository elsewhere",
        "git init -q --separate-git-dir=hidden n; git -C n config diff.external bad",
        bites=True,
    ),
    _one("included settings", "git init -q n; printf '[include]\\n\\tpath = ../bad\\n' >> n/.git/config", bites=True),
    _one(
        "settings split over lines",
        "git init -q n; printf '[core]\\n\\tbare = \\\\\\nfalse\\n[core] pager = bad\\n' >> n/.git/config",
        bites=True,
    ),
    _one("editor's tasks", "mkdir -p .vscode; echo bad > .vscode/tasks.json", bites=True),
    _one("editor's existing tasks", "echo bad > .idea/tasks.json", bites=True),
    _one("environment of the folder", "echo bad > .envrc", bites=True),
    _one("husky", "mkdir -p .husky; echo bad > .husky/pre-commit", bites=True),
    _one("a hook that comes late", "(sleep 0.3; echo bad > .git/hooks/pre-push) & sleep 0.5", bites=True),
]

HOME = [
    _one("shell's start file", 'echo bad >> "$H/.bashrc"', home=True, bites=True),
    _one("new start file", 'echo bad > "$H/.zshenv"', home=True, bites=True),
    _one("start file by rename", 'echo bad > "$H/docs/x"; mv -f "$H/docs/x" "$H/.bashrc"', home=True, bites=True),
    _one(
        "autostart",
        'mkdir -p "$H/.config/autostart"; echo bad > "$H/.config/autostart/x.desktop"',
        home=True,
        bites=True,
    ),
    _one(
        "unit file",
        'mkdir -p "$H/.config/systemd/user"; echo bad > "$H/.config/systemd/user/x.service"',
        home=True,
        bites=True,
    ),
    _one(
        "program of the person's",
        'mkdir -p "$H/bin" "$H/.local/bin"; echo bad > "$H/bin/ls"; echo bad > "$H/.local/bin/ls"',
        home=True,
        bites=True,
    ),
    _one("log in by key", 'echo bad >> "$H/.ssh/authorized_keys"', home=True, bites=True),
    _one("git settings of the person", "git config --global core.pager bad", home=True, bites=True),
    _one("a key, from home", 'cat "$H/.ssh/id_rsa" "$H/.aws/credentials"', home=True, bites=True),
    _one("home moved away", 'cd /; mv "$H" "$H.old" && mkdir "$H"', home=True),
    _one("cron", "echo '* * * * * true' | crontab -; crontab -l && echo ESCAPED"),
    _one("cron's folder", 'echo "# hermes test" > /etc/cron.d/hermes-escape-test && echo ESCAPED'),
    _one("users", "echo bad >> /etc/passwd && echo ESCAPED"),
    _one("start files of all", "echo bad > /etc/profile.d/hermes-escape-test.sh && echo ESCAPED"),
    _one("programs of all", "echo bad > /usr/local/bin/hermes-escape-test && echo ESCAPED"),
]

HERMES = [
    _one("settings", 'echo "approvals: {mode: off}" > "$H/.hermes/config.yaml"', bites=True),
    _one("database", 'echo x >> "$H/.hermes/hermes.db"', bites=True),
    _one("lock", 'rm -f "$H/.hermes/run/s.lock"', bites=True),
    _one("keys of Hermes", 'cat "$H/.hermes/auth.json" "$H/.hermes/.env"', bites=True),
    _one("what other sessions said", 'cat "$H/.hermes/hermes.db"', bites=True),
    _one("skills", 'echo bad > "$H/.hermes/skills/x"', bites=True),
    _one("memories", 'echo bad > "$H/.hermes/memories/m"', bites=True),
    _one("results", 'echo bad > "$H/.hermes/spill/s/r.txt"', bites=True),
    _one("the whole home moved", 'mv "$H/.hermes" "$H/h2" && mkdir "$H/.hermes"', bites=True),
    _one("Hermes' code", 'echo "# bad" >> "$CODE/x.py"', bites=True),
]

KEYS = [
    _one("read a key", 'cat "$H/.ssh/id_rsa"', bites=True),
    _one("other keys", 'cat "$H/.aws/credentials" "$H/.netrc" "$H/.config/gh/hosts.yml"', bites=True),
    _one("by dots", 'cat "$H/docs/../.ssh/id_rsa"', bites=True),
    _one("by a link", 'ln -s "$H/.ssh" k; cat k/id_rsa', bites=True),
    _one("by the root of itself", 'cat "/proc/self/root$H/.ssh/id_rsa"', bites=True),
    _one("by an archive", 'tar cf - "$H" 2>/dev/null | strings', bites=True),
    _one("by search", 'grep -r "" "$H" 2>/dev/null', bites=True),
    _one("by another process", 'cat "/proc/$DECOY/cwd/.ssh/id_rsa"', bites=True),
    _one("by rename", 'mv "$H/.ssh" "$W/k"; cat k/id_rsa', bites=True),
    _one("what a link leads to", 'cat "$H/keys/id_rsa"', bites=True),
    _one("shadow", "cat /etc/shadow && echo ESCAPED"),
]

NETWORK = [
    _one(
        "TCP",
        _python("import os,socket;socket.create_connection(('127.0.0.1',int(os.environ['PORT'])),1);print('ESCAPED')"),
        bites=True,
    ),
    _one("TCP by the shell", "echo x > /dev/tcp/127.0.0.1/$PORT && echo ESCAPED", bites=True),
    _one(
        "IPv6",
        _python("import os,socket;socket.create_connection(('::1',int(os.environ['PORT6'])),1);print('ESCAPED')"),
    ),
    _one(
        "UDP",
        _python("import os,socket;s=socket.socket(2,2);s.sendto(b'x',('127.0.0.1',int(os.environ['UDP'])))"),
        bites=True,
    ),
    _one(
        "names",
        _python(
            "import socket;s=socket.socket(2,2);s.settimeout(.3);s.sendto(b'\\0\\1\\1\\0\\0\\1\\0\\0\\0\\0\\0\\0\\1a\\0\\0\\1\\0\\1',('127.0.0.53',53))\n"
            "print('ESCAPED' if s.recv(9) else '')"
        ),
    ),
    _one("raw packets", _python("import socket;socket.socket(17,3,0);print('ESCAPED')")),
    _one("ping", _python("import socket;socket.socket(2,2,1);print('ESCAPED')"), only=LANDLOCK),
    _one("the machine's host", _python("import socket;socket.socket(40,1);print('ESCAPED')")),
    _one("change interfaces", "ip link add hermes0 type dummy && echo ESCAPED", only=BWRAP),
    _one(
        "listen for others",
        _python("import os,socket;s=socket.socket();s.bind(('127.0.0.1',0));print('ESCAPED')"),
        only=LANDLOCK,
        bites=True,
    ),
    _one(
        "unix socket",
        _python("import os,socket;s=socket.socket(1);s.connect(os.environ['SOCK']);print('ESCAPED')"),
        bites=True,
    ),
    _one(
        "abstract socket",
        _python("import os,socket;s=socket.socket(1);s.connect('\\0'+os.environ['ABSTRACT']);print('ESCAPED')"),
        bites=True,
    ),
    _one(
        "unix socket with the network on",
        _python("import os,socket;s=socket.socket(1);s.connect(os.environ['SOCK']);print('ESCAPED')"),
        network="on",
        bites=True,
    ),
    _one(
        "abstract socket with the network on",
        _python("import os,socket;s=socket.socket(1);s.connect('\\0'+os.environ['ABSTRACT']);print('ESCAPED')"),
        network="on",
        bites=True,
    ),
    _one("kill with the network on", 'kill -9 "$DECOY"', network="on", bites=True),
    _one(
        "agents and buses",
        'env | grep -E "SSH_AUTH_SOCK|DBUS_|DISPLAY|XDG_RUNTIME_DIR|DOCKER_HOST" && echo ESCAPED',
        bites=True,
    ),
    _one(
        "services of the machine",
        'for s in /run/docker.sock /var/run/docker.sock /run/dbus/system_bus_socket /run/systemd/private; do "$PY" -I -c "import socket,sys;socket.socket(1).connect(sys.argv[1])" $s 2>/dev/null && echo ESCAPED; done',
    ),
    _one(
        "past the proxy",
        _python("import os,socket;socket.create_connection(('127.0.0.1',int(os.environ['PORT'])),1);print('ESCAPED')"),
        network="allowlist",
        bites=True,
    ),
    _one("through the proxy", "curl -sS -m 3 --noproxy '' http://127.0.0.1:$PORT/ && true", network="allowlist"),
    _one("tunnel", "curl -sS -m 3 --noproxy '' --proxytunnel http://127.0.0.1:$PORT/", network="allowlist"),
    _one(
        "UDP past the proxy",
        _python("import os,socket;s=socket.socket(2,2);s.sendto(b'x',('127.0.0.1',int(os.environ['UDP'])))"),
        network="allowlist",
        bites=True,
    ),
    _one(
        "the door itself",
        "ls -l /proc/self/fd/ /proc/$$/fd/ | grep socket: && echo ESCAPED; ls /dev/hermes* 2>/dev/null && echo ESCAPED",
        only=BWRAP,
        network="allowlist",
    ),
]

_SETNS = "import ctypes,os,fcntl,glob;c=ctypes.CDLL(None,use_errno=True)\n"
_KNOCK = (
    "import socket,sys\n"
    "for a in ('127.0.0.1','127.17.0.1','127.17.0.2','0.0.0.0'):\n"
    " for p in map(int,sys.argv[1:]):\n"
    "  try:socket.create_connection((a,p),1);print('ESCAPED',a,p)\n"
    "  except OSError:pass"
)
_FORWARD = (
    "import socket,threading\n"
    "def pipe(a,b):\n"
    " while d:=a.recv(4096):b.sendall(d)\n"
    "def serve(s):\n"
    " while 1:\n"
    "  n=s.accept()[0];f=socket.create_connection(('127.0.0.1',17171))\n"
    "  threading.Thread(target=pipe,args=(n,f)).start();threading.Thread(target=pipe,args=(f,n)).start()\n"
    "s=socket.create_server(('127.0.0.1',18991));u=socket.socket(1);u.bind('\\0hermes-escape-forward');u.listen()\n"
    "threading.Thread(target=serve,args=(u,)).start();serve(s)"
)


_FORWARDER = f'F=$(cat <<\'END\'\n{_FORWARD}\nEND\n)\n("$PY" -I -c "$F" >/dev/null 2>&1 &); sleep 0.3'


LOOPBACK = [
    _one("enter the network of the first process", "nsenter -t 1 -n true && echo ESCAPED", only=BWRAP),
    _one("enter its users and network", "nsenter -t 1 -U -n --preserve-credentials true && echo ESCAPED", only=BWRAP),
    _one("enter the network of the parent", "nsenter -t $PPID -n true && echo ESCAPED", only=BWRAP),
    _one(
        "enter every namespace that can be named",
        _python(
            _SETNS
            + "for f in glob.glob('/proc/[0-9]*/ns/*')+glob.glob('/proc/self/ns/*')+glob.glob('/proc/self/fd/*'):\n"
            " try:h=os.open(f,os.O_RDONLY)\n except OSError:continue\n"
            " if c.setns(h,0)==0:print('ESCAPED',f)"
        ),
        network="allowlist",
    ),
    _one(
        "enter who owns the network",
        _python(
            _SETNS + "h=os.open('/proc/self/ns/net',os.O_RDONLY)\n"
            "for request in (0xb701,0xb702):\n"
            " try:o=fcntl.ioctl(h,request)\n except OSError:continue\n"
            " print('ESCAPED' if c.setns(o,0)==0 else '')"
        ),
    ),
    _one(
        "handles of a namespace",
        "for f in /proc/self/fd/* /proc/$$/fd/*; do case $(readlink $f) in net:*|user:*|*mnt:*) echo ESCAPED;; esac; done",
        network="allowlist",
        only=BWRAP,
    ),
    _one(
        "capabilities of the first process",
        'grep -hE "Cap(Prm|Eff|Inh|Amb)" /proc/[0-9]*/status | grep -vE "0000000000000000" && echo ESCAPED',
        network="allowlist",
        only=BWRAP,
    ),
    _one("change addresses", "ip addr add 10.9.9.9/8 dev lo && echo ESCAPED", only=BWRAP),
    _one("take the interface down", "ip link set lo down && echo ESCAPED", only=BWRAP, network="allowlist"),
    _one(
        "change routes",
        "ip route add default dev lo && echo ESCAPED; ip rule add from all table 7 && echo ESCAPED",
        only=BWRAP,
    ),
    _one(
        "an interface to another network",
        "for n in 1 $PPID; do ip link add hermes0 type veth peer name hermes1 netns $n && echo ESCAPED; done",
        only=BWRAP,
    ),
    _one(
        "a tunnel device",
        _python(
            "import fcntl,os,struct;h=os.open('/dev/net/tun',os.O_RDWR)\n"
            "fcntl.ioctl(h,0x400454ca,struct.pack('16sH22x',b'hermes0',1));print('ESCAPED')"
        ),
    ),
    _one(
        "settings of the network",
        'for f in ip_forward ip_unprivileged_port_start ping_group_range; do g=/proc/sys/net/ipv4/$f; echo "$(cat $g)" > $g && echo ESCAPED; done',
    ),
    _one(
        "raw sockets",
        _python(
            "import socket\nfor f,k,p in ((2,3,1),(2,3,255),(2,3,6),(10,3,58),(17,3,768),(17,2,768)):\n"
            " try:socket.socket(f,k,p);print('ESCAPED',f,k,p)\n except OSError:pass"
        ),
        only=BWRAP,
        network="allowlist",
    ),
    _one(
        "listen in on the interface",
        _python(
            "import socket,struct\n"
            "try:s=socket.socket(17,3,socket.htons(3));s.bind(('lo',0));print('ESCAPED')\nexcept OSError:pass\n"
            "for b in (b'\\1\\2\\0\\0',b'\\4\\2\\0\\0'):\n"
            " s=socket.socket(16,3,12);s.bind((0,0));s.settimeout(.3)\n"
            " s.send(struct.pack('=IHHII',28,0x400,5,1,0)+b+struct.pack('=HHBxxx',8,1,1))\n"
            " print('ESCAPED' if struct.unpack('=i',s.recv(99)[16:20])[0]==0 else '')"
        ),
        only=BWRAP,
        network="allowlist",
    ),
    _one(
        "the proxy's port",
        _python(
            "import socket\n"
            "for a in ('127.0.0.1','0.0.0.0','127.17.0.1','127.17.0.2','::ffff:127.0.0.1','::'):\n"
            " for o in ((),(2,),(15,),(2,15)):\n"
            "  s=socket.socket(10 if ':' in a else 2);[s.setsockopt(1,x,1) for x in o]\n"
            "  if ':' in a:s.setsockopt(41,26,0)\n"
            "  try:s.bind((a,17171));s.listen();print('ESCAPED',a,o)\n  except OSError:pass"
        ),
        only=BWRAP,
        network="allowlist",
    ),
    _one(
        "the proxy's port, once a command has ended",
        "true",
        _python("import socket;s=socket.socket();s.bind(('127.17.0.1',17171));print('ESCAPED')"),
        only=BWRAP,
        network="allowlist",
    ),
    _one(
        "close the proxy's socket",
        "ss -K sport = 17171; ss -K dport = 17171; true",
        _python("import socket\ntry:socket.create_connection(('127.0.0.1',17171),2)\nexcept OSError:print('ESCAPED')"),
        only=BWRAP,
        network="allowlist",
    ),
    _one(
        "connections of the machine",
        'p=$(printf %04X "$PORT"); grep -ihE ":$p " /proc/net/tcp /proc/[0-9]*/net/tcp /proc/[0-9]*/task/*/net/tcp && echo ESCAPED; grep -hF "$ABSTRACT" /proc/net/unix && echo ESCAPED',
        only=BWRAP,
        network="allowlist",
        bites=True,
    ),
    _one(
        "abstract socket past the proxy",
        _python("import os,socket;s=socket.socket(1);s.connect('\\0'+os.environ['ABSTRACT']);print('ESCAPED')"),
        network="allowlist",
        bites=True,
    ),
    _one(
        "the proxy, by a command without a network",
        "sleep 600.25 >/dev/null 2>&1 & true",
        f'"$PY" -I -c "{_KNOCK}" 17171',
        only=BWRAP,
        network="allowlist",
        offline=(1,),
    ),
    _one(
        "the proxy, by one that left a forwarder",
        _FORWARDER,
        f'"$PY" -I -c "{_KNOCK}" 17171 18991; '
        "\"$PY\" -I -c \"import socket;s=socket.socket(1);s.connect('\\0hermes-escape-forward');print('ESCAPED')\"",
        only=BWRAP,
        network="allowlist",
        offline=(1,),
    ),
    _one(
        "signal what another command left",
        "sleep 600.25 >/dev/null 2>&1 & true",
        "pkill -9 -f 'sleep 600[.]25' && echo ESCAPED; for p in $(seq 3 400); do [ $p = $$ ] || kill -0 $p 2>/dev/null && [ $p != $$ ] && grep -qa 600[.]25 /proc/$p/cmdline && echo ESCAPED; done",
        only=BWRAP,
        network="allowlist",
    ),
    _one(
        "attach to what another command left",
        "sleep 600.25 >/dev/null 2>&1 & true",
        _python(
            "import ctypes,os;c=ctypes.CDLL(None)\n"
            "for p in map(int,filter(str.isdigit,os.listdir('/proc'))):\n"
            " if p!=os.getpid() and b'600.'+b'25' in open(f'/proc/{p}/cmdline','rb').read() and c.ptrace(0x4206,p,0,0)==0:print('ESCAPED')"
        ),
        only=BWRAP,
        network="allowlist",
    ),
    _one(
        "ask for all connections",
        _python(
            "import socket\nh=[]\n"
            "try:\n for _ in range(600):h.append(socket.create_connection(('127.0.0.1',17171),1))\nexcept OSError:pass"
        ),
        "echo still here",
        only=BWRAP,
        network="allowlist",
    ),
]

ALL = [*WRITES, *MOUNTS, *PROCESSES, *LATER, *PROJECT, *HOME, *HERMES, *KEYS, *NETWORK, *LOOPBACK]
