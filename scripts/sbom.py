#!/usr/bin/env python3
"""Print the CycloneDX bill of materials of a program: the libraries that are linked into it.

sbom.py <manifest> <name of the program> <its version> <version of Rust>

Needs cyclonedx-python-lib. The same sources give the same output: it has neither a time nor a random serial number.
"""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import LicenseExpression
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL


def component(name: str, version: str, license: str, type: ComponentType, checksum: str | None = None) -> Component:
    purl = PackageURL("cargo", name=name, version=version) if checksum else None
    return Component(
        name=name,
        version=version,
        type=type,
        purl=purl,
        bom_ref=f"{name}@{version}",
        # An older way to write OR.
        licenses=[LicenseExpression(license.replace("/", " OR "))],
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=checksum)] if checksum else [],
    )


def main(manifest: str, program: str, version: str, rust: str) -> None:
    lock = tomllib.loads((Path(manifest).parent / "Cargo.lock").read_text())
    checksums = {(crate["name"], crate["version"]): crate.get("checksum") for crate in lock["package"]}
    # Macros and build scripts run while the program is built, and are not in it.
    tree = ["cargo", "tree", "--locked", "--manifest-path", manifest, "--edges", "normal,no-proc-macro"]
    tree += ["--prefix", "none", "--no-dedupe", "--format", "{p}|{l}"]
    lines = sorted(set(subprocess.run(tree, check=True, capture_output=True, text=True).stdout.splitlines()))

    kind = ComponentType.APPLICATION if program.endswith("-top") else ComponentType.LIBRARY
    root = component(program, version, "BSD-3-Clause", kind)
    libraries = [component("rust-std", rust, "MIT OR Apache-2.0", ComponentType.LIBRARY)]
    for line in lines:
        crate, license = line.split("|")
        name, number = crate.split()[:2]
        checksum = checksums[name, number.removeprefix("v")]
        # The project's own crates have no checksum: they are the program.
        if checksum:
            libraries.append(component(name, number.removeprefix("v"), license, ComponentType.LIBRARY, checksum))
    bom = Bom(components=libraries)
    bom.metadata.component = root
    bom.register_dependency(root, libraries)
    output = JsonV1Dot6(bom)
    output.generate()
    document = json.loads(output.output_as_string())
    del document["serialNumber"], document["metadata"]["timestamp"]
    print(json.dumps(document, indent=2, sort_keys=True))


main(*sys.argv[1:])
