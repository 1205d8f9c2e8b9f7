"""Places in the navigation for chapters that are still to come, from `extra.coming` in mkdocs.yml.

Each is a link to its paragraph on the menu page, so there are no empty pages.
"""

from __future__ import annotations

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.nav import Link, Navigation, Section

from kitchen.hooks.common import is_root, language

_SOON = {"en": "soon", "zh": "编写中"}
_MENU = "menu.md"


def on_nav(nav: Navigation, config: MkDocsConfig, files: Files) -> Navigation:
    """Add each group of chapters to come to the section of its name, or as a section of its own."""
    if is_root(config):
        return nav
    menu = files.get_file_from_path(_MENU)
    if menu is None:  # The scan after the build reports the missing page.
        return nav
    code = language(config)
    for group in config.extra.get("coming", []):
        links = [
            Link(f'{chapter[code]} <small class="ck-soon">{_SOON[code]}</small>', f"{menu.url}#{chapter['id']}")
            for chapter in group["chapters"]
        ]
        written = next((item for item in nav.items if isinstance(item, Section) and item.title == group[code]), None)
        if written is not None:
            for link in links:
                link.parent = written
            written.children += links
        elif links:
            nav.items.append(Section(group[code], list(links)))
    return nav
