"""The theme's search: mended for Chinese and for pasted error messages, and quicker while the site is served.

While serving, each save builds a language anew; sections of a page that has not changed are not taken apart (and, in
Chinese, cut into words) again: that was a quarter of the time of a build.

In Chinese the theme never looks at the last character of what is typed. Its search worker cuts a query at every
place where a prefix of the rest is a known word, but its inner loop ends one character too early (`o<t.length`), so
a word that ends the query is never found whole: a search for 重编译 (recompilation) finds 重 and 编 instead.

A message that is pasted into the search, ``Invalid backend: 'nvfuser', see ...``, is a heap of words for the theme: any
of them will do, the word before a colon is taken for the name of a field and lost, and the one word that the message is
about counts as much as "torch". Python's messages put that word between single quotes. So colons at the end of a word
are dropped, and what stands between single quotes must be found, as the theme does it for double quotes; pages and
sections that hold it in quotes too come first. If it is found nowhere, the words are searched as they were. Of a query
of four words and more, sections that hold the longest run of its words, as they stand, come first: numbers and names in
a message differ from reader to reader, the words between them don't.

Seen in mkdocs-material 9.8.2.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.pages import Page

from kitchen.hooks.common import is_root, language

#: ``find`` is the theme's own search. The groups are pages, each a list of its sections. ``run``: how many words of the
#: query, one after the other, stand in a section so; in its heading counts half a word more.
_SEARCH = r"""search(e){
let k=e.replace(/:(?=\s|$)/g," "),
quoted=/(^|[\s(\[=])'([^'"\s]+)'(?=[\s,.;:)\]?!]|$)/g,
words=[...k.matchAll(quoted)].map(m=>`'${m[2]}'`),
r=this.find(k.replace(quoted,'$1"$2"'));
if(words.length&&!r.items.length){r=this.find(k);words=[]}
let list=t=>t.replace(/<[^>]*>/g,"").replace(/&lt;/g,"<").replace(/&gt;/g,">").replace(/&amp;/g,"&").toLowerCase()
.match(/[\p{L}\p{N}_]+/gu)||[],
asked=list(k).slice(0,64);
if(!words.length&&asked.length<4)return r;
let longest=t=>{let text=` ${list(t).join(" ")} `,best=0;
for(let i=0;i+best<asked.length;i++)
while(i+best<asked.length&&text.includes(` ${asked.slice(i,i+best+1).join(" ")} `))best++;
return best},
known=new Map,
rank=x=>{if(!known.has(x.location)){let d=this.map.get(x.location);
let lacks=+!words.every(w=>d.title.includes(w)||d.text.includes(w)),
run=asked.length<4?0:Math.max(longest(d.title)+.5,longest(d.text));
known.set(x.location,[lacks,run<3?0:-run])}
return known.get(x.location)},
order=(a,b)=>rank(a)[0]-rank(b)[0]||rank(a)[1]-rank(b)[1];
for(let g of r.items)g.sort(order);
r.items.sort((a,b)=>order(a[0],b[0]));
return r}
"""
#: What stands in the theme's search worker, what shall stand there, and a search that shows whether it is mended.
_MENDED = [
    (
        "for(let o=s+1;o<t.length;o++)t.slice(s,o)in e",
        "for(let o=s+1;o<=t.length;o++)t.slice(s,o)in e",
        "重编译 on the Chinese site",
    ),
    ("search(e){if(e=e.replace(", _SEARCH + "find(e){if(e=e.replace(", "Invalid backend: 'nvfuser', see the list"),
]

Entry = dict[str, Any]
#: By language and address of a page: what its entries were made from, and the entries.
_kept: dict[tuple[str, str], tuple[tuple[str, str, str], list[Entry]]] = {}


def on_pre_build(config: MkDocsConfig) -> None:
    """Let the theme's plugin take apart only what has changed since the last build of this process."""
    plugin = config.plugins.get("material/search")
    if not is_root(config) and plugin is not None:
        remember(plugin.search_index, language(config))


def remember(index: Any, code: str) -> None:
    """Wrap the index's ``add_entry_from_context``: the entries of an unchanged page are those of the last time."""
    add: Callable[[Page], None] = index.add_entry_from_context

    def add_or_repeat(page: Page) -> None:
        made_from = (page.content or "", str(page.title), repr(sorted(page.meta.items())))
        known = _kept.get((code, page.url))
        if known is None or known[0] != made_from:
            before = len(index.entries)
            add(page)
            _kept[code, page.url] = made_from, [dict(entry) for entry in index.entries[before:]]
        else:
            index.entries += [dict(entry) for entry in known[1]]

    index.add_entry_from_context = add_or_repeat


def on_post_build(config: MkDocsConfig) -> None:
    """Mend the search worker: see the module.

    Raises:
        PluginError: the worker is not as expected; an upgrade of the theme may have mended or moved something.
    """
    if is_root(config):
        return
    workers = list(Path(config.site_dir, "assets/javascripts/workers").glob("search.*.min.js"))
    texts = {path: path.read_text("utf-8") for path in workers}
    for wrong, right, query in _MENDED:
        if [text.count(wrong) for text in texts.values()] != [1]:
            raise PluginError(
                f"kitchen/hooks/search.py: the theme's search worker no longer holds {wrong!r}. Search for {query}: "
                "if it is found without this hook, remove the entry; else mend the new code."
            )
        texts = {path: text.replace(wrong, right) for path, text in texts.items()}
    for path, text in texts.items():
        path.write_text(text, "utf-8")
