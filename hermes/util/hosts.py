"""Names and addresses of hosts."""


def is_loopback(host: str) -> bool:
    """Return whether the host is this machine and nothing else, by name or number; brackets around it are left out."""
    plain = host.strip("[]").lower()
    if plain == "localhost" or plain.endswith(".localhost"):
        return True
    import ipaddress  # only where the name does not say it

    try:
        return ipaddress.ip_address(plain).is_loopback
    except ValueError:
        return False
