#!/usr/bin/env python3
"""Who publishes Dehydrator, as dist/publisher.toml says, or the file that the variable PUBLISHER names.

publisher.py get <field>        prints one: name, email, security, homepage, repository
publisher.py filled             fails, and says so, if somebody has still to fill the file in
publisher.py fill [<folder>]    writes it into the files of a tree that tell it, of this one by default
publisher.py check              fails if a file of this tree tells something else
"""

import os
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FILE = Path(os.environ.get("PUBLISHER", ROOT / "dist/publisher.toml"))

CHANGELOG = '"{repository}/blob/main/integrations/%s/CHANGELOG.md"'
PYPROJECT = [
    'authors = [{{ name = "{name}", email = "{email}" }}]',
    'Homepage = "{homepage}"',
    'Repository = "{repository}"',
]
PACKAGE_JSON = [
    '"author": "{name} <{email}>",',
    '"homepage": "{homepage}",',
    '"repository": "{repository}",',
    '"bugs": "{repository}/issues",',
]
#: The lines that tell it. Each is found by how it begins, and may be indented.
LINES = {
    ".github/SECURITY.md": ["**Report a vulnerability** privately, please: write to <{security}>."],
    "Cargo.toml": ['authors = ["{name} <{email}>"]', 'homepage = "{homepage}"', 'repository = "{repository}"'],
    "dist/ramp.yml": ['author: "{name}"', 'email: "{email}"', 'homepage: "{homepage}"'],
    "integrations/python/pyproject.toml": [*PYPROJECT, "Changelog = " + CHANGELOG % "python"],
    "integrations/python-server/pyproject.toml": [*PYPROJECT, "Changelog = " + CHANGELOG % "python-server"],
    "integrations/node/package.json": PACKAGE_JSON,
    "integrations/node-server/package.json": PACKAGE_JSON,
    "integrations/sidekiq/sidekiq-dehydrator.gemspec": [
        'gem.authors = ["{name}"]',
        'gem.email = "{email}"',
        'gem.homepage = "{homepage}"',
        'gem.metadata["source_code_uri"] = "{repository}"',
        'gem.metadata["changelog_uri"] = ' + CHANGELOG % "sidekiq",
    ],
}


def publisher() -> dict[str, str]:
    """Returns what the file says."""
    return dict(re.findall(r'^(\w+) = "([^"]*)"$', FILE.read_text(), re.MULTILINE))


def filled(text: str, lines: list[str], who: dict[str, str]) -> str:
    """Returns a file's text with these lines filled in."""
    for line in lines:
        begins = re.escape(line.split("{")[0].rstrip('["'))
        new = line.format(**who)
        text, count = re.subn(rf"^( *){begins}.*$", lambda found, new=new: found[1] + new, text, flags=re.MULTILINE)
        if count != 1:
            raise SystemExit(f"publisher.py: {count} lines begin as {line}")
    return text


def go_files(root: Path, who: dict[str, str]) -> dict[Path, str]:
    """Returns the texts of the files that name our package for Go, which is imported by the repository's address."""
    folder = root / "integrations/go"
    before = re.search(r"^module (\S+)$", (folder / "dehydrator/go.mod").read_text(), re.MULTILINE)[1]
    after = who["repository"].partition("://")[2] + "/integrations/go/dehydrator"
    paths = [path for path in folder.rglob("*") if path.suffix in (".go", ".mod", ".md")]
    return {path: path.read_text().replace(before, after) for path in paths}


def main(command: str, *words: str) -> None:
    who = publisher()
    if command == "get":
        print(who[words[0]])
    elif command == "filled":
        missing = [field for field, value in who.items() if ".invalid" in value]
        if missing:
            raise SystemExit(
                f"{FILE.name} is not filled in: {', '.join(missing)}. Whoever publishes Dehydrator writes theirs into "
                "dist/publisher.toml, runs `make publisher`, and commits that."
            )
    elif command in ("fill", "check"):
        root = Path(words[0]) if words else ROOT
        texts = {root / name: filled((root / name).read_text(), lines, who) for name, lines in LINES.items()}
        for path, new in (texts | go_files(root, who)).items():
            if command == "fill":
                path.write_text(new)
            elif new != path.read_text():
                raise SystemExit(f"{path.relative_to(root)} does not say what {FILE.name} says: run `make publisher`.")
    else:
        raise SystemExit(__doc__)


main(*(sys.argv[1:] or ["help"]))
