"""Files that hold keys, by their names: showing one outside of the session's folder asks.

Inside of it they are the project's: a test has its own `key.pem`. Certificates are public.
"""

import re
from collections.abc import Sequence
from itertools import pairwise

from hermes.i18n.messages import N_
from hermes.safety.paths import Places
from hermes.safety.shell.words import word_set

SHOWING_PROGRAMS = word_set("""
    cat tac nl head tail less more bat most od xxd hexdump hd strings base64 base32 basenc rev cut sed awk gawk grep
    egrep fgrep rg sort uniq tr fold dd cp install tar zip gzip bzip2 xz zstd 7z cpio python python3 perl ruby node php
    nc ncat curl wget scp rsync pbcopy xclip tee vim view pr paste column jq yq openssl gpg diff cmp split
""")
"""Programs that show or copy the content of a file."""
_LISTING_ALL = word_set("locate plocate mlocate mdfind")
_KEY = re.compile(
    r"(?:^|/)(?:(?P<pem>[^/]*\.pem)|[^/]*\.(?:key|p12|pfx|p8|ppk|jks|keystore|kdbx?|agekey)|id_(?:rsa|dsa|ecdsa|"
    r"ed25519|[*?\[])(?![^/]*\.pub$)[^/]*|[._]netrc|\.pgpass|\.git-credentials|\.htpasswd|\.env(?:\.(?!example|sample|"
    r"template|dist|test|schema)[\w*-]+)?|\.?credentials?(?:\*|\.(?:json|csv|ini|txt|xml|ya?ml|toml|\*))?|"
    r"client_secrets?[^/]*\.json|service[-_]?account[^/]*\.json|wallet\.dat|secrets?\.(?:ya?ml|json|toml|env|ini|txt)|"
    r"passwords?\.(?:txt|csv|xlsx?|json))$",
    re.IGNORECASE,
)
_PRIVATE = re.compile(
    r"(^|/)([^/]*\.(pem|ovpn)|\.env(\.(?!example|sample|template|dist|test)[\w.-]+)?|[^/]*(credentials?|secrets?|passwords?)(\.\w+)?|\.(npmrc|pypirc|dockercfg)|"
    r"\.\w+_history|tokens?\.(json|txt|ya?ml)|(passwd|shadow))$",
    re.IGNORECASE,
)
"""Files beside those with keys whose content should not leave the machine."""
_PUBLIC = re.compile(
    r"(?:^|[-_./])(?:ca|(?:ca)?certs?|certificates?|(?:full)?chain|public|pub|bundle|roots?|dhparams?)\d*[-_.]"
)
_SHARED = re.compile(
    r"^/(?:usr|etc/(?:ssl/certs|pki/tls/certs|pki/ca-trust|ca-certificates)|opt/homebrew)/|/(?:site-packages|node_modules)/"
)
_TRANSIENT_FOLDER = re.compile(r"^/(?:tmp|var/tmp|private/tmp|dev|proc|sys)/")
_KEY_SUFFIXES = word_set("pem key p12 pfx p8 ppk jks keystore kdbx kdb")


def is_key_name(path: str) -> bool:
    """Return whether a path, or a pattern of paths, is named like a key."""
    found = _KEY.search(path)
    return found is not None and not (found["pem"] and _PUBLIC.search(path[found.start() :].lower()))


def is_private_file(path: str) -> bool:
    """Return whether what a file holds should not leave the machine, by its name."""
    return is_key_name(path) or _PRIVATE.search(path) is not None


def is_key_file(path: str, places: Places) -> bool:
    """Return whether an absolute path is a file that holds a key, by its name and by its place."""
    if path.startswith(places.workspace + "/") or _TRANSIENT_FOLDER.match(path) or not is_key_name(path):
        return False
    return _SHARED.search(path) is None


def key_read_reason(path: str) -> str:
    """Return the reason that is given for reading a file that is named like a key."""
    return N_("it reads {path}, which is called like a key", path=path)


def is_key_listing(name: str, args: Sequence[str], paths: Sequence[str], places: Places) -> bool:
    """Return whether a search program prints the names of key files; `paths` are the paths that it searches."""
    ends = (value for option, value in pairwise(args) if option in ("-e", "--extension"))
    if not any(map(is_key_name, args)) and _KEY_SUFFIXES.isdisjoint(ends):
        return False
    return name in _LISTING_ALL or not all(path.startswith(places.workspace) for path in paths)
