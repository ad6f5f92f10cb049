"""File sizes for display."""

from typing import Final

_UNITS: Final = ("bytes", "kB", "MB", "GB", "TB")


def bytes_text(count: int) -> str:
    """Return ``950 bytes``, ``1.4 GB``."""
    if count == 1:
        return "1 byte"
    amount, unit = float(count), 0
    while amount >= 1000 and unit < len(_UNITS) - 1:
        amount, unit = amount / 1000, unit + 1
    return f"{amount:.0f} {_UNITS[unit]}" if unit == 0 or amount >= 100 else f"{amount:.1f} {_UNITS[unit]}"
