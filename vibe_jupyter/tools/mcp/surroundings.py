"""What programs are started in."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Surroundings:
    """Where they are started, and what of the kernel's environment there is to pass on."""

    folder: Path
    environ: Mapping[str, str]
