"""Files for a transfer that can be checked on the other side.

    python3 -m railgauge.node.runners.file_set make FOLDER --files 1 --bytes 1048576 > manifest.json
    python3 -m railgauge.node.runners.file_set verify FOLDER manifest.json > arrived.json

The content follows from a seed, cannot be compressed, and differs between all files. A manifest
holds the bytes and the sha256 of every file, so that one node makes a set and another verifies
what arrived without seeing the original.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import random
import stat
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

#: Random bytes that all contents are cut from: more than any compressor of these tools looks back.
POOL_BYTES = 8 << 20
#: files of one folder; a folder of 100 000 files would measure the file system
FILES_PER_FOLDER = 1000
_CHUNK_BYTES = 4 << 20
#: differences that a report names one by one
_NAMED = 20

#: `files`: name -> [bytes, sha256]; `count` and `bytes` of all; `sha256` of the whole set
Manifest = dict[str, Any]


def names(files: int) -> list[str]:
    """The names of a set's files, relative to its folder."""
    if files == 1:
        return ["large.bin"]
    return [f"{i // FILES_PER_FOLDER:03d}/{i % FILES_PER_FOLDER:03d}.bin" for i in range(files)]


def make(folder: str | Path, files: int, file_bytes: int, seed: int = 0) -> Manifest:
    """Write a set into a folder that is new or empty; OSError where there is no room for it."""
    if files < 1 or file_bytes < 0:
        raise ValueError(f"{files} files of {file_bytes} bytes, expected 1 or more of 0 or more")
    root = Path(folder)
    root.mkdir(parents=True, exist_ok=True)
    if any(root.iterdir()):
        raise FileExistsError(f"{root} is not empty: a set needs a folder of its own")
    pool = random.Random(seed).randbytes(POOL_BYTES)
    entries: dict[str, tuple[int, str]] = {}
    for name in names(files):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        digest = hashlib.sha256()
        with path.open("xb", buffering=0) as stream:
            for piece in content(name, file_bytes, seed, pool):
                digest.update(piece)
                while len(piece):
                    piece = piece[stream.write(piece) :]
        entries[name] = (file_bytes, digest.hexdigest())
    return manifest_of(entries)


def content(name: str, file_bytes: int, seed: int, pool: bytes) -> Iterator[memoryview]:
    """A file's bytes: a digest of its own, then pieces of the pool from changing offsets."""
    head = hashlib.sha256(f"{seed}/{name}".encode()).digest()[:file_bytes]
    yield memoryview(head)
    left, places = file_bytes - len(head), random.Random(head)
    view = memoryview(pool)
    while left:
        start = places.randrange(len(pool))
        piece = view[start : start + min(left, len(pool) - start)]
        left -= len(piece)
        yield piece


def manifest_of(entries: dict[str, tuple[int, str]]) -> Manifest:
    whole = hashlib.sha256()
    for name in sorted(entries):
        size, digest = entries[name]
        whole.update(f"{digest} {size} {name}\n".encode("utf-8", "surrogateescape"))
    return {
        "files": {name: list(entries[name]) for name in sorted(entries)},
        "count": len(entries),
        "bytes": sum(size for size, _ in entries.values()),
        "sha256": whole.hexdigest(),
    }


def scan(folder: str | Path, workers: int = 0) -> tuple[Manifest, list[str]]:
    """The manifest of the regular files below a folder, and what else is there."""
    root = Path(folder)
    names, odd = [], []
    for name, mode in _walk(root):
        if stat.S_ISREG(mode):
            names.append(name)
        else:
            odd.append(f"{'symlink' if stat.S_ISLNK(mode) else 'other'}: {name}")
    entries: dict[str, tuple[int, str]] = {}
    with ThreadPoolExecutor(workers or min(8, os.cpu_count() or 1)) as pool:
        for name, read in zip(names, pool.map(lambda name: _digest(root / name), names)):
            if isinstance(read, str):
                odd.append(f"unreadable: {name}: {read}")
            else:
                entries[name] = read
    return manifest_of(entries), sorted(odd)


def verify(folder: str | Path, manifest: Manifest, workers: int = 0) -> dict[str, Any]:
    """What arrived, and every difference from the manifest.

    `differences` are lines `missing|extra|changed|symlink|unreadable|other: NAME`; the first are
    named, the rest counted. An empty list means that the set arrived whole, and nothing else.
    """
    try:
        files = manifest["files"].items()
        wanted = {name: (int(size), str(digest)) for name, (size, digest) in files}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"not a manifest: {error!r}") from None
    if manifest_of(wanted)["sha256"] != manifest.get("sha256"):
        raise ValueError("not a whole manifest: its sha256 is not that of its files")
    if not wanted:
        raise ValueError("a manifest without files proves nothing")
    there, odd = scan(folder, workers)
    arrived = {name: tuple(entry) for name, entry in there["files"].items()}
    differences = list(odd)
    for name in sorted(wanted.keys() | arrived.keys()):
        if name not in arrived:
            differences.append(f"missing: {name}")
        elif name not in wanted:
            differences.append(f"extra: {name}")
        elif arrived[name][0] != wanted[name][0]:
            sizes = f"{arrived[name][0]} bytes, expected {wanted[name][0]}"
            differences.append(f"changed: {name}: {sizes}")
        elif arrived[name] != wanted[name]:
            differences.append(f"changed: {name}: another sha256")
    shown = differences[:_NAMED]
    if len(differences) > len(shown):
        shown.append(f"and {len(differences) - len(shown)} more")
    return {
        **{key: there[key] for key in ("count", "bytes", "sha256")},
        "expected": {key: manifest[key] for key in ("count", "bytes", "sha256")},
        "differences": shown,
    }


def _walk(root: Path) -> Iterator[tuple[str, int]]:
    """Name and mode of all that is below a folder and is no folder; links are not followed."""
    waiting = [root]
    while waiting:
        folder = waiting.pop()
        with os.scandir(folder) as entries:
            for entry in entries:
                mode = entry.stat(follow_symlinks=False).st_mode
                if stat.S_ISDIR(mode):
                    waiting.append(Path(entry.path))
                else:
                    yield str(Path(entry.path).relative_to(root)), mode


def _digest(path: Path) -> tuple[int, str] | str:
    """Bytes and sha256 of a file, or why it cannot be read."""
    digest, size = hashlib.sha256(), 0
    try:
        with path.open("rb", buffering=0) as stream:
            while True:
                piece = stream.read(_CHUNK_BYTES)
                if not piece:
                    return size, digest.hexdigest()
                size += len(piece)
                digest.update(piece)
    except OSError as error:
        return error.strerror or type(error).__name__


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="file_set", description=__doc__)
    orders = parser.add_subparsers(dest="order", required=True)
    making = orders.add_parser("make", help="write a set, print its manifest")
    making.add_argument("folder")
    making.add_argument("--files", type=int, required=True)
    making.add_argument("--bytes", type=int, required=True, help="of each file")
    making.add_argument("--seed", type=int, default=0)
    checking = orders.add_parser("verify", help="print what arrived and every difference")
    checking.add_argument("folder")
    checking.add_argument("manifest")
    options = parser.parse_args(arguments)
    try:
        if options.order == "make":
            print(json.dumps(make(options.folder, options.files, options.bytes, options.seed)))
            return 0
        manifest = json.loads(Path(options.manifest).read_text(encoding="utf-8"))
        report = verify(options.folder, manifest)
    except (OSError, ValueError) as error:
        print(f"file_set: {error}", file=sys.stderr)
        return 2
    with contextlib.suppress(BrokenPipeError):
        print(json.dumps(report))
    return 1 if report["differences"] else 0


if __name__ == "__main__":
    sys.exit(main())
