"""Run by `spack -e ENVIRONMENT python`: which versions of packages Spack finds below prefixes.

The argument is a JSON list of [package, prefix]; prints one of the same length, with the versions
found of each: by the package's own programs and libraries, as `spack external find` does.
"""

import json
import pathlib
import sys

import spack.detection


def versions(name, prefix):
    prefix = pathlib.Path(prefix)
    # Debian's libraries are in a folder named after the machine.
    hints = [str(prefix), *map(str, prefix.glob("lib/*-linux-gnu"))]
    found = spack.detection.by_path([name], path_hints=hints, max_workers=1).get(name, [])
    return sorted({str(spec.versions).lstrip("=") for spec in found})


print(json.dumps([versions(*asked) for asked in json.loads(sys.argv[1])]))
