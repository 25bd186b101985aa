"""The bill of materials of a commit: CycloneDX 1.6, from requirements.txt.

    python -m package.sbom VERSION COMMIT MOMENT

Prints the document. The same arguments give the same bytes. https://cyclonedx.org/docs/1.6/json
"""

from __future__ import annotations

import datetime
import json
import re
import sys
import uuid

from packaging.utils import canonicalize_name

from package.pins import REQUIREMENTS, entries

_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


def components(text: str) -> list[dict[str, object]]:
    """A component for each pinned package of a requirements file, with the hashes of its files and
    the marker that says for which Python it is.
    """
    found: list[dict[str, object]] = []
    for requirement, entry in entries(text):
        (pin,) = requirement.specifier
        name, version = canonicalize_name(requirement.name), pin.version
        purl = f"pkg:pypi/{name}@{version}"
        properties = [{"name": "file:sha256", "value": hash_} for hash_ in _HASH.findall(entry)]
        if requirement.marker is not None:
            properties.append({"name": "marker", "value": str(requirement.marker)})
        found.append(
            {
                "type": "library",
                "bom-ref": purl,
                "name": name,
                "version": version,
                "purl": purl,
                "properties": properties,
            }
        )
    return found


def document(version: str, commit: str, moment: int) -> dict[str, object]:
    libraries = components(REQUIREMENTS.read_text(encoding="utf-8"))
    own = f"pkg:pypi/railgauge@{version.replace('+', '%2B')}"
    when = datetime.datetime.fromtimestamp(moment, datetime.timezone.utc)
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, own + commit)}",
        "version": 1,
        "metadata": {
            "timestamp": f"{when:%Y-%m-%dT%H:%M:%SZ}",
            "component": {
                "type": "application",
                "bom-ref": own,
                "name": "railgauge",
                "version": version,
                "purl": own,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
                "properties": [{"name": "commit", "value": commit}],
            },
        },
        "components": libraries,
        "dependencies": [{"ref": own, "dependsOn": [one["bom-ref"] for one in libraries]}],
    }


if __name__ == "__main__":
    print(json.dumps(document(sys.argv[1], sys.argv[2], int(sys.argv[3])), indent=2))
