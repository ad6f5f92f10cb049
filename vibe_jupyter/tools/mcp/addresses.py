"""Which addresses a server may be at, and which ones it may send us to (security C31)."""

import asyncio
import ipaddress
import socket
from typing import Final
from urllib.parse import urlsplit

_LOCAL_NAMES: Final = ("localhost",)
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")


def problem_with(url: str) -> str:
    """Why no server is spoken to at this address; empty where nothing speaks against it."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as problem:
        return f"cannot be reached at {url}: {problem}"
    if parts.scheme not in ("http", "https") or not host:
        return f"has no web address: {url}"
    if parts.scheme == "http" and not is_loopback(url):
        return f"is at an http: address on another machine ({host}), which anybody on the way can read and change"
    return ""


def is_loopback(url: str) -> bool:
    """Whether an address is of this machine, by its spelling."""
    host = (urlsplit(url).hostname or "").rstrip(".")
    return host in _LOCAL_NAMES or host.endswith(".localhost") or _is_loopback(host)


async def public_address(host: str, port: int) -> str:
    """One address of a host that a server named, to be connected to as it is.

    Raises:
        OSError: it is not known, or one of its addresses is not public.
    """
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = [str(entry[4][0]) for entry in found]
    for address in addresses:
        if not _is_public(ipaddress.ip_address(address.partition("%")[0])):
            raise OSError(f"{host} is {address}, which is no public address")
    return addresses[0]


def _is_public(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """Whether it leads to the world outside, also where it carries an older address in itself."""
    if isinstance(address, ipaddress.IPv6Address):
        if address in _NAT64:
            return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF).is_global
        carried = address.ipv4_mapped or address.sixtofour
        if carried is not None:
            return carried.is_global
    return address.is_global and not address.is_multicast


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
