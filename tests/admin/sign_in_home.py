"""What tests of sign-ins to vendors share: a home that knows a vendor on loopback, and what lies in its store."""

import zipfile

from msgspec import structs

from hermes.config.home import HermesHome
from hermes.oauth.sign_in import SignIn
from hermes.oauth.token_store import TokenStore
from hermes.testing.home import ProgramResult, TempHome
from tests.forked_hermes import run_hermes
from tests.vendors.sign_in_server import CLAIM, CLIENT, FakeVendor


def make_home(vendor: FakeVendor, **sign_in: object) -> TempHome:
    """Return a home whose settings know the fake as `vendor`, a provider and a sign-in."""
    provider = {"base_url": f"{vendor.url}/v1", "api_mode": "responses", "models": ["m"]}
    described = {
        "title": "The Vendor",
        "terms": "https://vendor.example/terms",
        "client_id": CLIENT,
        "token_endpoint": f"{vendor.url}/token",
        "device_endpoint": f"{vendor.url}/device/code",
        "account_claim": list(CLAIM),
    }
    return TempHome(
        {
            "model": {"default": "m", "provider": "vendor", "context_length": 200_000},
            "providers": {"vendor": provider},
            "sign_in": {"vendor": described | sign_in},
            "terminal": {"backend": "local"},
        }
    )


async def log_in(home: TempHome, *more: str, vendor: str = "vendor") -> ProgramResult:
    """Sign in without questions."""
    done = await run_hermes(home, "auth", "login", vendor, "--yes", *more)
    assert done.code == 0, done.stderr
    return done


def open_store(home: TempHome) -> TokenStore:
    """Return the store of a home's tokens."""
    found = HermesHome(home.hermes)
    return TokenStore(found.oauth_file, found.locks)


def stored(home: TempHome, vendor: str = "vendor") -> SignIn:
    """Return what is stored of a sign-in."""
    found = open_store(home).read(f"account:{vendor}")
    assert found is not None
    return found


def change_stored(home: TempHome, vendor: str = "vendor", **changes: object) -> SignIn:
    """Change what is stored of a sign-in; return it."""
    changed = structs.replace(stored(home, vendor), **changes)
    open_store(home).write(f"account:{vendor}", changed)
    return changed


def assert_no_token(home: TempHome, *tokens: str) -> None:
    """No file of the home but the store holds a token, whatever it is packed in."""
    for file in home.root.rglob("*"):
        if not file.is_file() or file.name == "oauth.json":
            continue
        data = [file.read_bytes()]
        if zipfile.is_zipfile(file):
            with zipfile.ZipFile(file) as archive:
                assert not any(name.endswith("oauth.json") for name in archive.namelist())
                data += [archive.read(name) for name in archive.namelist()]
        for token in tokens:
            assert not any(token.encode() in one for one in data), file
