"""Takes over the login of another program, once and when the person says so. That program's file is only read.

A refresh token is good for one use, so it cannot serve two programs: the first refresh here ends the login there. It is
made at once, so that the person sees the end when they have asked for it, and not on some later day.
"""

import asyncio
import contextlib
import os
import stat
import time
from collections.abc import Mapping

import msgspec
from msgspec import Struct

from hermes.admin.config import locate_writable_home
from hermes.admin.sign_in import (
    SignInDone,
    SignInPlan,
    build_dialect,
    check_vendor,
    name_account,
    open_token_store,
    store_entry,
)
from hermes.config.environment import merge_dotenv
from hermes.config.load import load_settings
from hermes.core.errors import ConfigError, HermesError, UsageError
from hermes.i18n.messages import N_
from hermes.oauth.code_flow import read_claim
from hermes.oauth.metadata import origin_of
from hermes.oauth.requests import is_header_token
from hermes.oauth.sign_in import SignIn
from hermes.oauth.token_exchange import find_member
from hermes.oauth.token_keeper import TokenKeeper
from hermes.oauth.token_store import TokenStore
from hermes.providers.sign_in_vendors import VENDORS, SignInVendor, find_vendor
from hermes.sessions.model.credentials import load_known_record, make_account_sender
from hermes.util.file_handles import RefusedPathError, open_read

_MAX_BYTES = 256 * 1024


class ImportPlan(Struct, frozen=True, kw_only=True):
    """A login that is about to be taken over."""

    plan: SignInPlan
    program: str
    """Whose login it is, and what ends."""
    root: str
    """The folder that the file may not lead out of."""
    file: str


def plan_import(environ: Mapping[str, str], name: str) -> ImportPlan:
    """Return what would be taken over. Nothing of it is looked at. Raises ConfigError, UsageError."""
    home = locate_writable_home(environ)
    settings = load_settings(home).settings
    own_name, vendor = find_vendor(name, settings.sign_in)
    if not vendor.import_file:
        raise UsageError(
            N_("No login of another program is known for {title}.", title=vendor.title or own_name),
            N_("`hermes auth login {name}` signs you in.", name=own_name),
        )
    known = VENDORS.get(own_name)
    if known is not None and vendor.client_id != known.client_id:
        raise ConfigError(
            N_("The login of {program} belongs to another client than yours.", program=vendor.import_program),
            N_("Take sign_in.{name}.client_id out of config.yaml, or sign in with it.", name=own_name),
        )
    record = load_known_record(vendor.provider, home, settings)
    check_vendor(own_name, vendor, record.base_url)
    root, file = _locate(environ, vendor)
    return ImportPlan(
        plan=SignInPlan(
            name=own_name,
            vendor=vendor,
            base_url=record.base_url,
            default_model=record.default_model,
            by_device=False,
        ),
        program=vendor.import_program,
        root=root,
        file=file,
    )


async def import_sign_in(environ: Mapping[str, str], wanted: ImportPlan) -> SignInDone:
    """Read the tokens, refresh them for the first time here, and store them in the place of an earlier sign-in.

    Raises HermesError: then nothing is kept.
    """
    home, plan = locate_writable_home(environ), wanted.plan
    settings = load_settings(home).settings
    found = read_sign_in(await asyncio.to_thread(_read_file, wanted), plan.vendor, wanted.program)
    home.ensure_exists()
    store, account = open_token_store(home, settings), name_account(plan.name)
    send = make_account_sender(merge_dotenv(environ, home.env_file), settings)
    keeper = TokenKeeper(store, account, send, time.time)
    before = await keeper.read_sign_in()
    await keeper.store_sign_in(found)
    try:
        token = await keeper.refresh(found.access_token)
        after = await keeper.read_sign_in()
    except HermesError:
        await _put_back(store, keeper, account, before)
        raise
    if not token or after is None:
        reason = after.ended_because if after is not None else ""
        await _put_back(store, keeper, account, before)
        raise ConfigError(
            N_("The login of {program} cannot be taken over: {reason}.", program=wanted.program, reason=reason),
            N_("`hermes auth login {name}` signs you in.", name=plan.name),
        )
    label = store_entry(home, plan, after)
    return SignInDone(label=label, notice=store.list_fallbacks().get(account, ""))


async def _put_back(store: TokenStore, keeper: TokenKeeper, account: str, before: SignIn | None) -> None:
    """Store what was there before, or delete what was not."""
    if before is not None:
        await keeper.store_sign_in(before)
    else:
        await asyncio.to_thread(store.delete, account)


def _locate(environ: Mapping[str, str], vendor: SignInVendor) -> tuple[str, str]:
    """Return the folder that the file may not lead out of, and the file. Raises ConfigError where there is no home."""
    home, named = environ.get("HOME", ""), environ.get(vendor.import_variable, "") if vendor.import_variable else ""
    folder, _, name = vendor.import_file.rpartition("/")
    if os.path.isabs(named):
        root = os.path.realpath(named)
        return root, os.path.join(root, name)
    if not os.path.isabs(home):
        raise ConfigError(N_("No home folder is known."), N_("Set HOME."))
    root = os.path.realpath(home)
    return root, os.path.normpath(os.path.join(root, folder.removeprefix("~/"), name))


def _read_file(wanted: ImportPlan) -> bytes:
    """Read the file if it is the person's alone and inside of the folder. Raises ConfigError."""

    def judge(real: str) -> str:
        return "" if real.startswith(f"{wanted.root.rstrip('/')}/") else N_("it leads out of {root}", root=wanted.root)

    try:
        with open(open_read(wanted.file, judge), "rb") as source:
            why = _judge_status(os.fstat(source.fileno()))
            raw = b"" if why else source.read(_MAX_BYTES + 1)
    except FileNotFoundError:
        raise ConfigError(
            N_("There is no login of {program}: {file} is missing.", program=wanted.program, file=wanted.file)
        ) from None
    except RefusedPathError as error:
        raise _refuse_file(wanted, error.reason) from None
    except OSError as error:
        raise _refuse_file(wanted, error.strerror or str(error)) from None
    if why or len(raw) > _MAX_BYTES:
        raise _refuse_file(wanted, why or N_("it is too large"))
    return raw


def _judge_status(status: os.stat_result) -> str:
    """Return what speaks against a file that holds tokens; empty when nothing does."""
    if status.st_uid != os.getuid():
        return N_("it belongs to another user")
    if status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        return N_("other users may read or change it (chmod 600)")
    if status.st_nlink != 1:
        return N_("it has a second name")
    return N_("it is too large") if status.st_size > _MAX_BYTES else ""


def _refuse_file(wanted: ImportPlan, reason: str) -> ConfigError:
    return ConfigError(N_("{file} is not read: {reason}.", file=wanted.file, reason=reason.rstrip(".")))


def read_sign_in(raw: bytes, vendor: SignInVendor, program: str) -> SignIn:
    """Return the sign-in that a program's file holds. Raises ConfigError, which quotes nothing of the file."""
    document: object = None
    with contextlib.suppress(msgspec.MsgspecError, UnicodeError, RecursionError):
        document = msgspec.json.decode(raw)
    access, refresh, id_token, account = (
        _read_text(document, path)
        for path in (
            vendor.import_access_path,
            vendor.import_refresh_path,
            vendor.import_id_token_path,
            vendor.import_account_path,
        )
    )
    if not is_header_token(access) or not is_header_token(refresh):
        raise ConfigError(
            N_("The file of {program} holds no login with tokens.", program=program),
            N_("A key of that program is taken over by `hermes auth add`."),
        )
    return SignIn(
        issuer=vendor.issuer or origin_of(vendor.token_endpoint),
        token_endpoint=vendor.token_endpoint,
        client_id=vendor.client_id,
        access_token=access,
        refresh_token=refresh,
        scope=vendor.scope,
        account_claim=vendor.account_claim,
        account=read_claim(id_token, vendor.account_claim) or (account if is_header_token(account) else ""),
        dialect=build_dialect(vendor),
    )


def _read_text(document: object, path: tuple[str, ...]) -> str:
    found = find_member(document, path)
    return found if isinstance(found, str) else ""
