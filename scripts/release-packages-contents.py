#!/usr/bin/env python3
"""Look into the packages that scripts/release-packages.sh has built: their licences, their pages, who publishes them.

release-packages-contents.py <folder> <repository>
"""

import gzip
import io
import re
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

#: What the programs of the servers ask for.
OF_PROGRAMS = ("VALKEY-LICENCES", "THIRD-PARTY")

Reader = Callable[[str], str]


def opened(path: Path) -> tuple[list[str], Reader]:
    """Returns the names in a package, and what reads one of them."""
    if path.suffix == ".whl":
        wheel = zipfile.ZipFile(path)
        return wheel.namelist(), lambda name: wheel.read(name).decode()
    archive = tarfile.open(path)
    if path.suffix == ".gem":
        metadata = gzip.decompress(archive.extractfile("metadata.gz").read()).decode()
        archive = tarfile.open(fileobj=io.BytesIO(archive.extractfile("data.tar.gz").read()))
        names = [*archive.getnames(), "metadata"]
        return names, lambda name: metadata if name == "metadata" else archive.extractfile(name).read().decode()
    return archive.getnames(), lambda name: archive.extractfile(name).read().decode()


def faults(path: Path, repository: str) -> list[str]:
    """Returns what is wrong with a package."""
    names, read = opened(path)
    has_programs = any(name.endswith("/valkey-server") for name in names)
    wanted = ("LICENSE", *(OF_PROGRAMS if has_programs else ()))
    found = [f"it has no {name}" for name in wanted if not any(re.search(rf"(^|/){name}$", one) for one in names)]
    # A page stands in the metadata of a wheel.
    pages = [name for name in names if re.search(r"(^|/)(METADATA|PKG-INFO|README\.md|package\.json|metadata)$", name)]
    text = "\n".join(map(read, pages))
    found += [f"its page links to {link}" for link in re.findall(r"\]\(((?!https?://|#)[^)\s]*)\)", text)]
    found += [f"it tells of {word}" for word in set(re.findall(r"\S+\.invalid\S*", text))]
    if repository not in text:
        found.append(f"it does not tell of {repository}")
    return found


def main(folder: str, repository: str) -> None:
    packages = sorted(Path(folder).iterdir())
    found = [f"{path.name}: {fault}" for path in packages for fault in faults(path, repository)]
    if found or not packages:
        raise SystemExit("\n".join(found) or f"There is nothing in {folder}.")
    print(f"{len(packages)} packages have their licences, and pages of which all links are absolute.")


main(*sys.argv[1:])
