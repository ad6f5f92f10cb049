"""Read commits and trees of a git repository without running git, within limits.

Only names and object ids are read, never the content of a tracked file.
"""

import contextlib
import mmap
import os
import re
import stat
import struct
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from vibe_jupyter.lazy_patterns import lazy_pattern
from vibe_jupyter.permissions.shell import UnknownCommand

OBJECTS_LIMIT: Final = 250  # objects read per decision
OBJECT_SIZE_LIMIT: Final = 512 * 1024  # bytes of one object
BYTES_LIMIT: Final = 4 * 1024 * 1024  # bytes of all objects of one decision
REFS_LIMIT: Final = 1024 * 1024  # bytes of packed-refs
_REFERENCE_LIMIT: Final = 4_096  # bytes of a reference; git opens no longer path
REFLOG_LIMIT: Final = 1024 * 1024  # bytes of a reflog
_PIECE: Final = 4_096  # bytes to decompress at a time
_PACKS_LIMIT: Final = 50
_CHAIN_LIMIT: Final = 50  # length of a delta chain, and of a chain of symbolic references
_OID: Final = lazy_pattern(r"[0-9a-f]{40}")
_SHORT: Final = lazy_pattern(r"[0-9a-f]{4,39}")
_SUFFIX: Final = lazy_pattern(r"(~\d{0,4}|\^\d?(?!\{)|\^\{(?:commit)?\}|@\{\d{1,4}\})$")
# Places of a reference by its name, in git's order.
_PLACES: Final = ("{}", "refs/{}", "refs/tags/{}", "refs/heads/{}", "refs/remotes/{}", "refs/remotes/{}/HEAD")
_REFLOG_LINE: Final = lazy_pattern(rb"[0-9a-f]{40} [0-9a-f]{40} [^\t]*> \d+ [+-]\d{4}(?:\t.*)?", re.DOTALL)
_TYPES: Final = {1: "commit", 2: "tree", 3: "blob", 4: "tag"}
_OFFSET_DELTA: Final = 6
_BASE_DELTA: Final = 7
_IDX_MAGIC: Final = b"\xfftOc\x00\x00\x00\x02"
_FOLDER_MODES: Final = (b"40000", b"040000")


class TreeEntry(NamedTuple):
    mode: bytes
    oid: str

    @property
    def is_folder(self) -> bool:
        """True if the entry is a subtree."""
        return self.mode in _FOLDER_MODES


class Commit(NamedTuple):
    """The fields of a commit that are needed here."""

    tree: str
    parents: tuple[str, ...]


class ObjectStore:
    """Objects and references of one repository."""

    def __init__(self, git: Path, common: Path) -> None:
        """
        Args:
            git: The folder with HEAD.
            common: The folder with the objects, which differs from `git` in a linked work tree.
        """
        self.git = git
        self.common = common
        self._read: dict[str, tuple[str, bytes]] = {}
        self._bytes = 0
        self._packs: list[_Pack] | None = None
        self._cut: frozenset[str] | None = None

    def commit(self, oid: str) -> Commit:
        """Return a commit. A commit at the boundary of a shallow clone has no parents.

        Raises:
            UnknownCommand: The object isn't a commit, or can't be read within the limits.
        """
        kind, raw = self._read_object(oid)
        if kind != "commit":
            raise UnknownCommand("operand", f"{oid[:10]} is not a commit")
        head = raw.partition(b"\n\n")[0].decode(errors="replace").split("\n")
        tree = next((line[5:] for line in head if line.startswith("tree ")), "")
        parents = tuple(line[7:] for line in head if line.startswith("parent "))
        return Commit(tree, () if oid in self._shallow_commits() else parents)

    def tree(self, oid: str) -> Mapping[str, TreeEntry]:
        """Return the entries of a tree by name.

        Raises:
            UnknownCommand: The object isn't a tree, or can't be read within the limits.
        """
        kind, raw = self._read_object(oid)
        if kind != "tree":
            raise UnknownCommand("operand", f"{oid[:10]} is not a tree")
        return dict(_tree_entries(raw))

    def resolve(self, revision: str) -> str | None:
        """Resolve a revision to a commit id, or None if it doesn't exist.

        Raises:
            UnknownCommand: It refers to something other than a commit, or is ambiguous.
        """
        suffixes: list[str] = []
        base = revision
        while match := _SUFFIX.search(base):
            suffixes.append(match[0])
            base = base[: match.start()]
        if suffixes and suffixes[-1].startswith("@{"):
            oid = self._from_reflog(base or self._branch(), int(suffixes.pop()[2:-1]))
        else:
            oid = self._read_reference(base)
        if oid is None:
            return None
        oid = self._peel_tag(oid)
        for suffix in reversed(suffixes):
            oid = self._follow_suffix(oid, suffix, revision)
        return oid

    def _follow_suffix(self, oid: str, suffix: str, revision: str) -> str:
        if suffix.startswith("^{"):
            return oid
        if suffix.startswith("@"):
            raise UnknownCommand("operand", f"it is unclear how git reads {revision!r}")
        count = int(suffix[1:] or 1)
        steps, parent = (count, 1) if suffix[0] == "~" else (min(count, 1), count)
        for _ in range(steps):
            parents = self.commit(oid).parents
            if len(parents) < parent:
                raise UnknownCommand("operand", f"{revision} is not there")
            oid = parents[parent - 1]
        return oid

    def _peel_tag(self, oid: str) -> str:
        for _ in range(_CHAIN_LIMIT):
            kind, raw = self._read_object(oid)
            if kind == "commit":
                return oid
            if kind != "tag":
                break
            oid = raw[7:47].decode(errors="replace")
        raise UnknownCommand("operand", f"{oid[:10]} is not a commit, so what it shows may come from any file")

    def _read_reference(self, name: str) -> str | None:
        if name in ("@", ""):
            name = "HEAD"
        if _OID.fullmatch(name):
            return name
        if ".." in name or name.startswith(("/", "-")) or name.endswith("/"):
            return None
        if name.startswith("main-worktree/"):
            raise UnknownCommand("operand", f"it is unclear how git reads {name!r}")
        for place in _PLACES:
            if oid := self._reference_at(place.format(name)):
                return oid
        return self._find_abbreviated(name) if _SHORT.fullmatch(name) else None

    def _reference_at(self, name: str) -> str | None:
        for _ in range(_CHAIN_LIMIT):
            text = self._loose_reference(name)
            if not text.startswith("ref:"):
                break
            name = text[4:].strip()
        else:
            raise UnknownCommand("repository", "the references of this repository form a loop")
        if text:
            return text[:40] if _OID.fullmatch(text[:40]) else None
        packed = bounded(self.common / "packed-refs", REFS_LIMIT)
        at = packed.find(f" {name}\n".encode())
        return packed[at - 40 : at].decode(errors="replace") if at >= 40 else None

    def _loose_reference(self, name: str) -> str:
        return bounded(self._folder_of(name) / name, _REFERENCE_LIMIT, cut=True).decode(errors="replace").strip()

    def _folder_of(self, name: str) -> Path:
        shared = name.startswith(("refs/", "worktrees/")) and not name.startswith(("refs/bisect/", "refs/worktree/"))
        return self.common if shared else self.git

    def _branch(self) -> str:
        """Return the reference that HEAD stands for, which is HEAD itself if no branch is checked out."""
        text = self._loose_reference("HEAD")
        return text[4:].strip() if text.startswith("ref:") else "HEAD"

    def _from_reflog(self, name: str, back: int) -> str | None:
        name = "HEAD" if name == "@" else name
        for place in (place.format(name) for place in _PLACES):
            lines = bounded(self._folder_of(place) / "logs" / place, REFLOG_LIMIT).split(b"\n")[:-1]
            if not all(map(_REFLOG_LINE.fullmatch, lines[-1 - back :])):  # git skips such a line
                raise UnknownCommand("repository", "a log of this repository cannot be read")
            if lines:
                return lines[-1 - back][41:81].decode(errors="replace") if back < len(lines) else None
        return None

    def _find_abbreviated(self, name: str) -> str | None:
        found: set[str] = set()
        with contextlib.suppress(OSError):
            found.update(name[:2] + entry for entry in os.listdir(self.common / "objects" / name[:2]))
        found = {oid for oid in found if oid.startswith(name) and len(oid) == 40}
        for pack in self._all_packs():
            found.update(pack.beginning_with(name))
        if len(found) > 1:
            found = {oid for oid in found if self._read_object(oid)[0] == "commit"}
        return next(iter(found)) if len(found) == 1 else None

    def _shallow_commits(self) -> frozenset[str]:
        if self._cut is None:
            self._cut = frozenset(bounded(self.common / "shallow", REFS_LIMIT).decode(errors="replace").split())
        return self._cut

    def _read_object(self, oid: str) -> tuple[str, bytes]:
        if oid not in self._read:
            if len(self._read) >= OBJECTS_LIMIT or self._bytes > BYTES_LIMIT:
                raise UnknownCommand(
                    "repository", "more of its history would have to be looked through than takes a moment"
                )
            try:
                self._read[oid] = found = self._read_loose(oid) or self._read_packed(oid)
            except (IndexError, struct.error, ValueError) as error:
                raise UnknownCommand("repository", "an object of this repository cannot be read") from error
            self._bytes += len(found[1])
        return self._read[oid]

    def _read_loose(self, oid: str) -> tuple[str, bytes] | None:
        if not _OID.fullmatch(oid):
            raise UnknownCommand("repository", "an object of this repository cannot be read")
        raw = bounded(self.common / "objects" / oid[:2] / oid[2:], OBJECT_SIZE_LIMIT)
        if not raw:
            return None
        head, nul, body = _inflated_from(raw, 0).partition(b"\0")
        if not nul:
            raise UnknownCommand("repository", "an object of this repository cannot be read")
        return head.split(b" ")[0].decode(errors="replace"), body

    def _read_packed(self, oid: str, depth: int = 0) -> tuple[str, bytes]:
        for pack in self._all_packs():
            if (offset := pack.offset_of(oid)) is not None:
                return self._read_at(pack, offset, depth)
        raise UnknownCommand("repository", "an object of this repository is missing, so git may fetch it")

    def _read_at(self, pack: "_Pack", offset: int, depth: int) -> tuple[str, bytes]:
        if depth > _CHAIN_LIMIT:
            raise UnknownCommand("repository", "an object of this repository is built on very many others")
        kind, base, raw = pack.entry(offset)
        if kind in _TYPES:
            return _TYPES[kind], raw
        found = (
            self._read_at(pack, offset - base, depth + 1) if isinstance(base, int) else self._read_base(base, depth + 1)
        )
        return found[0], _patched(found[1], raw)

    def _read_base(self, oid: str, depth: int) -> tuple[str, bytes]:
        return self._read_loose(oid) or self._read_packed(oid, depth)

    def _all_packs(self) -> "list[_Pack]":
        if self._packs is None:
            folder = self.common / "objects" / "pack"
            try:
                names = sorted(name for name in os.listdir(folder) if name.endswith(".idx"))
            except OSError:
                names = []
            if len(names) > _PACKS_LIMIT:
                raise UnknownCommand("repository", f"this repository has more than {_PACKS_LIMIT} packs")
            self._packs = [_Pack(folder / name) for name in names]
        return self._packs


class _Pack:
    """A pack file and its version 2 index."""

    def __init__(self, idx: Path) -> None:
        self._idx = _mapped(idx)
        self._place = idx.with_suffix(".pack")
        self._data: mmap.mmap | None = None
        if len(self._idx) < 1_032 or self._idx[:8] != _IDX_MAGIC:
            raise UnknownCommand("repository", "a pack of this repository is of a form that cannot be read")
        (self._count,) = struct.unpack_from(">I", self._idx, 1_028)
        if len(self._idx) < 1_032 + 28 * self._count:
            raise UnknownCommand("repository", "a pack of this repository is not whole")

    def offset_of(self, oid: str) -> int | None:
        """Return the offset of an object, or None if it isn't in this pack."""
        wanted = bytes.fromhex(oid)
        at = self._first_at_least(wanted)
        if at >= self._count or self._oid_at(at) != wanted:
            return None
        base = 1_032 + 24 * self._count
        (offset,) = struct.unpack_from(">I", self._idx, base + 4 * at)
        if offset & 0x80000000:
            (offset,) = struct.unpack_from(">Q", self._idx, base + 4 * self._count + 8 * (offset & 0x7FFFFFFF))
        return offset

    def beginning_with(self, text: str) -> Iterator[str]:
        """Yield object ids with a prefix, at most `_CHAIN_LIMIT`."""
        at = self._first_at_least(bytes.fromhex(text.ljust(40, "0")))
        for _ in range(_CHAIN_LIMIT):
            if at >= self._count or not self._oid_at(at).hex().startswith(text):
                return
            yield self._oid_at(at).hex()
            at += 1

    def entry(self, offset: int) -> tuple[int, "int | str", bytes]:
        """Read a pack entry.

        Returns:
            Its type, for a delta its base (as a distance or an id), and its bytes.
        """
        if self._data is None:
            self._data = _mapped(self._place)
        data = self._data
        byte = data[offset]
        kind, position = byte >> 4 & 7, offset + 1
        while byte & 0x80:
            byte, position = data[position], position + 1
        base: int | str = 0
        if kind == _OFFSET_DELTA:
            base, position = _distance(data, position)
        elif kind == _BASE_DELTA:
            base, position = data[position : position + 20].hex(), position + 20
        elif kind not in _TYPES:
            raise UnknownCommand("repository", "a pack of this repository is of a form that cannot be read")
        return kind, base, _inflated_from(data, position)

    def _oid_at(self, at: int) -> bytes:
        return self._idx[1_032 + 20 * at : 1_052 + 20 * at]

    def _first_at_least(self, wanted: bytes) -> int:
        low, high = 0, self._count
        while low < high:
            middle = (low + high) // 2
            if self._oid_at(middle) < wanted:
                low = middle + 1
            else:
                high = middle
        return low


def _tree_entries(raw: bytes) -> Iterator[tuple[str, TreeEntry]]:
    position = 0
    while position < len(raw):
        space = raw.find(b" ", position)
        nul = raw.find(b"\0", space)
        if space < 0 or nul < 0:
            raise UnknownCommand("repository", "an object of this repository cannot be read")
        yield (
            raw[space + 1 : nul].decode(errors="replace"),
            TreeEntry(raw[position:space], raw[nul + 1 : nul + 21].hex()),
        )
        position = nul + 21


def _distance(data: mmap.mmap, position: int) -> tuple[int, int]:
    byte = data[position]
    distance = byte & 0x7F
    while byte & 0x80:
        position += 1
        byte = data[position]
        distance = ((distance + 1) << 7) | (byte & 0x7F)
    return max(1, distance), position + 1


def _patched(base: bytes, delta: bytes) -> bytes:
    """Apply a delta to its base."""
    position = _after_number(delta, _after_number(delta, 0))
    out = bytearray()
    while position < len(delta) and len(out) <= OBJECT_SIZE_LIMIT:
        code = delta[position]
        position += 1
        if code & 0x80:
            start = size = 0
            for bit in range(4):
                if code & 1 << bit:
                    start |= delta[position] << 8 * bit
                    position += 1
            for bit in range(3):
                if code & 1 << 4 + bit:
                    size |= delta[position] << 8 * bit
                    position += 1
            size = size or 0x10000
            out += base[start : start + size]
        else:
            out += delta[position : position + code]
            position += code
    return bytes(out)


def _after_number(delta: bytes, position: int) -> int:
    while position < len(delta) and delta[position] & 0x80:
        position += 1
    return position + 1


def _inflated_from(data: "bytes | mmap.mmap", position: int) -> bytes:
    machine = zlib.decompressobj()
    out = b""
    try:
        while not machine.eof and len(out) <= OBJECT_SIZE_LIMIT and position < len(data):
            piece = data[position : position + _PIECE]
            position += len(piece)
            out += machine.decompress(piece, OBJECT_SIZE_LIMIT + 1 - len(out))
    except zlib.error as error:
        raise UnknownCommand("repository", "an object of this repository cannot be read") from error
    if len(out) > OBJECT_SIZE_LIMIT or not machine.eof:
        raise UnknownCommand("repository", "an object of this repository is very large")
    return out


def _mapped(path: Path) -> mmap.mmap:
    try:
        with open(path, "rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:
        raise UnknownCommand("repository", f"{path.name} of this repository cannot be read") from error


def bounded(path: Path, limit: int, *, cut: bool = False) -> bytes:
    """Read a regular file, or return b'' if it doesn't exist. A longer one is refused, or cut off."""
    try:
        # A link may lead out of the repository, and opening a pipe would block until something writes to it.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except (FileNotFoundError, NotADirectoryError):
        return b""
    except OSError as error:
        raise UnknownCommand(
            "repository", f"{path.name} of this repository cannot be read: {error.strerror}"
        ) from error
    try:
        if not stat.S_ISREG(mode := os.fstat(descriptor).st_mode) and not stat.S_ISDIR(mode):
            raise UnknownCommand("repository", f"{path.name} of this repository is not a regular file")
        raw = b""
        while len(raw) <= limit and (piece := os.read(descriptor, limit + 1 - len(raw))):
            raw += piece
    except IsADirectoryError:
        return b""
    finally:
        os.close(descriptor)
    if len(raw) > limit and not cut:
        raise UnknownCommand("repository", f"{path.name} of this repository is very large")
    return raw[:limit]
