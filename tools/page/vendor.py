"""Copies the live page's libraries from tools/page/node_modules into the gateway's package, with their licences.

`make page-libraries` runs it after npm; the copies are committed, so that an installation needs neither npm nor a network.
"""

from __future__ import annotations

import json
from pathlib import Path

HERE = Path(__file__).parent
MODULES = HERE / "node_modules"
VENDOR = HERE.parents[1] / "libs" / "steepest" / "src" / "steepest" / "gateway" / "page" / "vendor"

FILES = {
    "preact": {"dist/preact.min.umd.js": "preact.js", "hooks/dist/hooks.umd.js": "preact-hooks.js"},
    "htm": {"dist/htm.umd.js": "htm.js"},
    "uplot": {"dist/uPlot.iife.min.js": "uplot.js", "dist/uPlot.min.css": "uplot.css"},
}
"""By package: the file in it, and its name here."""


def main() -> None:
    """Copy the files, and write which versions they are."""
    VENDOR.mkdir(parents=True, exist_ok=True)
    about = ["Libraries of the live page, as their packages on npm have them; `make page-libraries` copies them.\n"]
    for package, files in FILES.items():
        folder = MODULES / package
        described = json.loads((folder / "package.json").read_text())
        about.append(f"{package} {described['version']} ({described['license']}): {', '.join(files.values())}\n")
        for source, name in files.items():
            text = (folder / source).read_text()
            lines = [line for line in text.splitlines() if not line.startswith("//# sourceMappingURL")]
            (VENDOR / name).write_text("\n".join(lines).rstrip() + "\n")
    about += [f"\n==== {package} ====\n\n{(MODULES / package / 'LICENSE').read_text().strip()}\n" for package in FILES]
    (VENDOR / "LICENSES.txt").write_text("".join(about))


if __name__ == "__main__":
    main()
