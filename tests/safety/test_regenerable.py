"""What can be made again, what only checks or plans, and what is near to it and is none of that. Nothing here runs."""

from hermes.safety.shell.commands import analyze_command
from hermes.safety.shell.findings import Verdict
from tests.case_tables import each_case
from tests.safety.corpus_score import PLACES
from tests.safety.verdicts import overall_verdict

LOSES_NOTHING = r"""
rm -rf build
rm -rf build dist ./*.egg-info
rm -rf packages/*/dist packages/*/node_modules
rm -rf /home/dev/project/target
rm -rf dist/* coverage/.tmp
rm -f build/*
cd frontend && rm -rf node_modules
for d in build dist; do rm -rf "$d"; done
B=out; rm -rf $B && mkdir $B
npx rimraf dist
mv dist out && rm -rf out
mv a.txt b.txt && rm -rf build
find . -name __pycache__ -type d -prune -exec rm -r {} +
find . -type d \( -name node_modules -o -name dist \) -prune -exec rm -rf '{}' +
find build -type f -delete
find src tests -name '*.pyc' -print -delete
find . -type d -empty -delete
find . -path '*/build/*' -delete
find . -name '*.o' -print0 | xargs -0 rm -f
find . -path ./node_modules -prune -o -name '*.pyc' -print | xargs rm -f
rm -f $(find . -name '*.o')
d=$(mktemp -d) && touch "$d/a" && rm -r "$d"
tmp=$(mktemp -d); trap 'rm -rf "$tmp"' EXIT; cp a "$tmp"/
tmp=$(mktemp -d); cleanup() { rm -rf "$tmp"; }; trap cleanup EXIT; ls "$tmp"
work=`mktemp -d -p . w.XXXX`; rm -rf -- "$work"
t=$(mktemp); sort a > "$t"; mv "$t" a
bash -n <<< 'rm -rf /'
sh -n -c 'mkfs.ext4 /dev/sda'
bash -o noexec -c 'shutdown -h now'
echo 'rm -rf ~' | shellcheck -s sh -
node --check <<< 'require("child_process").exec("rm -rf /")'
ruby -wc <<< 'system("rm -rf /")'
php -l <<< '<?php unlink("/etc/passwd");'
terraform plan -destroy -out=x
pulumi destroy --preview-only
docker compose --dry-run down -v
git reflog expire --dry-run --all
sfdisk --no-act /dev/sda
""".strip().splitlines()

LOSES = r"""
rm -rf src
rm -rf build src
rm -rf build*
rm -rf build/../src
rm -rf .git build
rm -rf ~/build
rm -rf $X/build
cd ..; rm -rf build
cd build; rm -rf *
ssh h rm -rf build
docker exec c rm -rf build
docker exec c rm -rf $(find . -name build)
npx rimraf src
find . -delete -name '*.pyc'
find . ! -name '*.pyc' -delete
find . -name '*.pyc' -o -name '*.py' -delete
find . \( -name '*.pyc' -o -name '*.py' \) -delete
find . ! \( -name '*.pyc' -o -name '*.o' \) -delete
find . -name build -o -delete
find . -printf -name -printf '*.o' -delete
find . -type d ! -empty -delete
find -L . -name build -exec rm -rf {} +
find . -name build -exec rm -rf {} src +
find ~ -name '*.o' -delete
find build .. -delete
find -files0-from f -name '*.o' -delete
find . -name '*.o' | sed 's/o$/c/' | xargs rm
find . -name '*.o' -exec echo src \; | xargs rm -rf
{ find . -name '*.o'; echo src; cat l; } | xargs rm -rf
find . -name '*.o' | xargs -a list rm -rf
find . -name '*.o' | xargs rm -rf src
find . -name '*.o' | ssh h xargs rm -rf
rm -rf $(find . -name '*.o'; cat list)
rm -rf $(find . -name '*.o')/../src
d=$(mktemp -d); d=~/x; rm -rf "$d"
d=$(mktemp -d || echo ~/x); rm -rf "$d"
d=$(mktemp -d); rm -rf "$d"/../x
d=$(mktemp -d); rm -rf "$d"/*
d=$(mktemp -d); rm -rf "$d$x"
d=$(mktemp -u); rm -rf "$d"/x/$y
mktemp() { echo ~/x; }; d=$(mktemp -d); rm -rf "$d"
tmp=$(mktemp -d); trap 'rm -rf "$tmp"' EXIT; tmp=~/x
tmp=$(mktemp -d); cleanup() { rm -rf "$tmp"; }; trap cleanup EXIT; tmp=$HOME/x
t=$(mktemp); python3 "$t"
t=$(mktemp); . "$t"
t=$(mktemp); bash "$t"
bash -in -c 'rm -rf ~/x'
bash +n -c 'rm -rf ~/x'
bash -n +n -c 'rm -rf ~/x'
bash -n +o noexec -c 'rm -rf ~/x'
zsh -n -o exec -c 'rm -rf ~/x'
mv ~/thesis build && rm -rf build
mv src build; rm -rf build
ln -s ~/Documents build && rm -rf build/*
ln -s ~/Documents x; rm -rf x/build
ln -s ~/Documents x; find x/ -name '*.o' -delete
ln -sfn ~/Documents out; find out/ -type f -delete
d=$(mktemp -d); mv ~/thesis "$d"; rm -rf "$d"
nu -n -c 'rm -rf ~/x'
perl -c <<< 'BEGIN{system("rm -rf ~/x")}'
ruby -rc -e 'system("rm -rf ~/x")'
shfmt -w ~/.bashrc
mkfs.ext4 -L -n /dev/sdb1
rclone --dry-run=false sync a b
terraform apply -destroy
systemctl --dry-run stop sshd
gio remove -f ~/Documents/a
kioclient remove src
""".strip().splitlines()


def verdict(command: str) -> Verdict:
    return overall_verdict(analyze_command(command, PLACES.workspace, PLACES), sandboxed=False)


@each_case("command", LOSES_NOTHING)
def test_what_loses_nothing_is_left_alone(command: str) -> None:
    assert verdict(command) is Verdict.ALLOW


@each_case("command", LOSES)
def test_what_only_looks_like_it_is_not(command: str) -> None:
    assert verdict(command) is not Verdict.ALLOW


def test_what_is_named_as_made_again_is_so_only_in_the_sessions_folder() -> None:
    for folder in ("/home/dev", "/srv/app", "/"):
        assert overall_verdict(analyze_command("rm -rf build", folder, PLACES), sandboxed=False) is not Verdict.ALLOW
    assert (
        overall_verdict(analyze_command("rm -rf build", f"{PLACES.workspace}/a/b", PLACES), sandboxed=False)
        is Verdict.ALLOW
    )
