"""The documentation as a site: ``make docs``.

It owns what is on the site: ``docs/``, and every file of the repository that a page links, so that no link leads out of it.
Pages keep their places, so links between them stay as they are; a source file becomes a page that shows it. Sections and
their order are those of ``docs/index.md``. How pages look is Zensical's.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tools.docs.markdown import ROOT, links, local_links, relinked

OUT = ROOT / "out" / "docs"
START = ROOT / "docs" / "index.md"
LANGUAGES = {".py": "python", ".toml": "toml", ".yaml": "yaml", ".sh": "bash"}


def stage(out: Path) -> None:
    """Lay the site's pages out in a folder of their own, ``pages``, and write Zensical's settings beside it."""
    shutil.rmtree(out, ignore_errors=True)
    shutil.copytree(ROOT / "docs", out / "pages" / "docs")
    waiting, seen = [ROOT / "README.md", START], set[Path]()
    while waiting:
        page = waiting.pop()
        if page not in seen:
            seen.add(page)
            waiting += _place(page, out / "pages")
    (out / "zensical.toml").write_text(settings())


def _place(file: Path, pages: Path) -> list[Path]:
    """Put one file of the repository on the site; the files that it links."""
    target = pages / file.relative_to(ROOT)
    target.parent.mkdir(parents=True, exist_ok=True)
    if file.suffix != ".md":
        if not file.is_relative_to(ROOT / "docs"):
            shown(target).write_text(source_page(file))
        return []
    text = file.read_text()
    target.write_text(relinked(text, lambda link: _on_site(file, link)))
    return [(file.parent / link.partition("#")[0]).resolve() for link in local_links(text) if not link.startswith("#")]


def _on_site(page: Path, link: str) -> str:
    path, _, _ = link.partition("#")
    file = (page.parent / path).resolve()
    is_source = path and file.suffix != ".md" and not file.is_relative_to(ROOT / "docs")
    return shown(Path(path)).as_posix() if is_source and ":" not in link else link


def shown(file: Path) -> Path:
    """The page that shows a source file."""
    return file.with_name(f"{file.name}.md")


def source_page(file: Path) -> str:
    """A source file, or the names in a folder, as a page that the site's search leaves out."""
    if file.is_dir():
        language, text = "text", "".join(f"{name}\n" for name in sorted(inner.name for inner in file.iterdir()))
    else:
        language, text = LANGUAGES.get(file.suffix, "text"), file.read_text()
    name = file.relative_to(ROOT).as_posix()
    return f"---\nsearch:\n  exclude: true\n---\n\n# {file.name}\n\n`{name}`\n\n````{language}\n{text}````\n"


def settings() -> str:
    """Zensical's settings. The navigation is that of the index; JSON's strings and lists are TOML's as well."""
    nav = ",\n".join(f"  {{ {json.dumps(title)} = {json.dumps(pages)} }}" for title, pages in sections().items())
    return f"""[project]
site_name = "Steepest"
docs_dir = "pages"
site_dir = "site"
use_directory_urls = false
nav = [
  {{ "Steepest" = "README.md" }},
  {{ "Documentation" = "docs/index.md" }},
{nav}
]

[project.theme]
font = false
features = ["content.code.copy", "navigation.sections", "navigation.top", "search.highlight"]

[[project.theme.palette]]
media = "(prefers-color-scheme: light)"
scheme = "default"
toggle.icon = "lucide/sun"
toggle.name = "Dark"

[[project.theme.palette]]
media = "(prefers-color-scheme: dark)"
scheme = "slate"
toggle.icon = "lucide/moon"
toggle.name = "Light"

[project.markdown_extensions]
tables = {{}}
toc.permalink = true
pymdownx.highlight.pygments_lang_class = true
pymdownx.inlinehilite = {{}}
pymdownx.superfences.custom_fences = [
  {{ name = "mermaid", class = "mermaid", format = "pymdownx.superfences.fence_code_format" }},
]
"""


def sections() -> dict[str, list[str]]:
    """The pages of the index, by its headings, in its order."""
    found: dict[str, list[str]] = {}
    for part in re.split(r"^## ", START.read_text(), flags=re.MULTILINE)[1:]:
        title, _, text = part.partition("\n")
        targets = ((START.parent / link.partition("#")[0]).resolve() for link in links(text))
        pages = (file.relative_to(ROOT).as_posix() for file in targets if file.suffix == ".md")
        found[title.strip()] = list(dict.fromkeys(pages))
    return found


def build() -> int:
    """Stage and build; the generator's status. It refuses a link that leads nowhere."""
    stage(OUT)
    zensical = Path(sys.executable).with_name("zensical")
    command = [str(zensical), "build", "--strict", "--clean", "--config-file", str(OUT / "zensical.toml")]
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(build())
