"""The theme's search: mended for Chinese and for pasted error messages, lighter, and quicker while the site is served.

While serving, each save builds a language anew; sections of a page that has not changed are not taken apart (and, in
Chinese, cut into words) again: that was a quarter of the time of a build.

In Chinese the theme never looks at the last character of what is typed. Its search worker cuts a query at every
place where a prefix of the rest is a known word, but its inner loop ends one character too early (`o<t.length`), so
a word that ends the query is never found whole: a search for 重编译 (recompilation) finds 重 and 编 instead.

A message that is pasted into the search, ``Invalid backend: 'nvfuser', see ...``, is a heap of words for the theme: any
of them will do, the word before a colon is taken for the name of a field and lost, and the one word that the message is
about counts as much as "torch". Python's messages put that word between single quotes. So colons at the end of a word
are dropped, and what stands between single quotes must be found, as the theme does it for double quotes; pages and
sections that hold it in quotes too come first. That holds where a section has the word in quotes and, in a query of
three words and more, beside the same word as the query: else it is a name of the reader's, such as a tensor's, and left
out of the comparison. Of a query of three words and more, sections that hold the longest run of its words, as they
stand, come first: numbers and names in a message differ from reader to reader, the words between them don't.

The theme also reads double quotes, and signs before a word, as orders (``+dynamic`` must be there, ``-x`` must not,
``^^^`` is a fault). In eight words and more, as a traceback has them (``File "train.py"``, ``~~~^^^``), they are none;
and in a shorter query double quotes are none where nothing would be found.

Lunr, the theme's search library, takes two nodes of its word tree for the same when the text of one, "1" to node 2 and
"3" to node 4, reads like that of another, "1" to node 234. On a site with many numbers it then meets words that there
are not, and a search ends with "Invalid query". A separator between the two keeps them apart.

The theme fetches its whole index with every page, a quarter of a megabyte. Here it is fetched when it is wanted.

Seen in mkdocs-material 9.8.2.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.pages import Page

from kitchen.hooks.common import is_root, language

#: ``find`` is the theme's own search. The groups are pages, each a list of its sections. ``run``: how many words of the
#: query, one after the other, stand in a section so; in its heading counts half a word more, and a heading that stands
#: in the query whole a word and a quarter (the name of an exception before a message is no reason to prefer another).
#: Of equals, the one with more in its heading comes first, then the shorter heading.
_SEARCH = r"""search(e){
let list=t=>t.replace(/<[^>]*>/g,"").replace(/&lt;/g,"<").replace(/&gt;/g,">").replace(/&amp;/g,"&").toLowerCase()
.match(/[\p{L}\p{N}_]+/gu)||[],
k=e.replace(/:(?=\s|$)/g," ").replace(/[~^](?!\d)/g," "),
asked=list(k).slice(0,64);
if(asked.length>7)k=k.replace(/["~^]/g," ").replace(/(^|\s)[-+*]+/g,"$1");
let quoted=/(^|[\s(\[=])'([^'"\s]+)'(?=[\s,.;:)\]?!]|$)/g,
words=[...k.matchAll(quoted)].map(m=>m[2]),
r=this.find(k.replace(quoted,'$1"$2"')),
texts=new Map,
text=x=>{if(!texts.has(x.location)){let d=this.map.get(x.location);
texts.set(x.location,[d.title,d.text].map(t=>[t,` ${list(t).join(" ")} `]))}
return texts.get(x.location)},
holds=x=>words.every(w=>text(x).some(([t])=>t.includes(`'${w}'`))),
beside=x=>words.every(w=>{let own=list(w),n=own.length,
at=asked.findIndex((_,i)=>own.every((o,j)=>o===asked[i+j]));
return at<0||text(x).some(([,t])=>[asked.slice(Math.max(0,at-1),at+n),asked.slice(at,at+n+1)]
.some(p=>p.length>n&&t.includes(` ${p.join(" ")} `)))});
if(words.length&&!(asked.length<3?r.items.length:r.items.some(g=>g.some(x=>holds(x)&&beside(x))))){
r=this.find(k);words=[];
let all=list;list=t=>all(t.replace(/'[^'"\s]+'/g," "));
asked=list(k).slice(0,64);texts.clear()}
if(!r.items.length&&k.includes('"'))r=this.find(k.replace(/"/g," "));
if(!words.length&&asked.length<3)return r;
let longest=t=>{let best=0;
for(let i=0;i+best<asked.length;i++)
while(i+best<asked.length&&t.includes(` ${asked.slice(i,i+best+1).join(" ")} `))best++;
return best},
known=new Map,
rank=x=>{if(!known.has(x.location)){let[[,title],[,body]]=text(x),
n=title.trim().split(" ").length,head=longest(title),
run=Math.max(head+(head>3&&head===n?1.25:.5),longest(body));
known.set(x.location,run<3?[+!holds(x),0,0,0]:[+!holds(x),-run,-head,n])}
return known.get(x.location)},
order=(a,b)=>rank(a).map((v,i)=>v-rank(b)[i]).find(v=>v)||0;
for(let g of r.items)g.sort(order);
r.items.sort((a,b)=>order(a[0],b[0]));
return r}
"""
#: The theme's own observable of an answer that never changes, but asked for when a reader turns to the search: when the
#: field gets the focus, or at once where the address has a query (``?q=``) or words to mark (``?h=``).
_INDEX = (
    'new tt.constructor(o=>{let go=()=>fetch(new URL("search/search_index.json",Or.base)).then(r=>r.json())'
    ".then(i=>o.next(i),e=>o.error(e));"
    r"/[?&][qh]=/.test(location.search)?go():"
    'document.forms.namedItem("search").addEventListener("focusin",go,{once:true})}).pipe(Z(1))'
)


class Mend(NamedTuple):
    """What stands in a script of the theme, what shall stand there, and how to see whether that is still needed."""

    script: str
    wrong: str
    right: str
    seen: str


_WORKER, _BUNDLE = "workers/search.*.min.js", "bundle.*.min.js"
MENDED = [
    Mend(
        _WORKER,
        "for(let o=s+1;o<t.length;o++)t.slice(s,o)in e",
        "for(let o=s+1;o<=t.length;o++)t.slice(s,o)in e",
        "search for 重编译 on the Chinese site",
    ),
    Mend(
        _WORKER,
        "search(e){if(e=e.replace(",
        _SEARCH + "find(e){if(e=e.replace(",
        "search for Invalid backend: 'nvfuser', see the list",
    ),
    Mend(
        _WORKER,
        "s=r[i],o=this.edges[s];e=e+s+o.id}return e}",
        's=r[i],o=this.edges[s];e=e+s+o.id+";"}return e}',
        "search for every letter of the alphabet, and look for 'Invalid query' in the browser's console",
    ),
    Mend(
        _BUNDLE,
        'ze(new URL("search/search_index.json",Or.base))',
        _INDEX,
        "open a page and look whether search_index.json is loaded before anyone searches",
    ),
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
    """Mend the theme's scripts: see the module.

    Raises:
        PluginError: a script is not as expected; an upgrade of the theme may have mended or moved something.
    """
    if is_root(config):
        return
    scripts = Path(config.site_dir, "assets/javascripts")
    texts: dict[Path, str] = {}
    for mend in MENDED:
        paths = list(scripts.glob(mend.script))
        found = {path: texts.get(path) or path.read_text("utf-8") for path in paths}
        if [text.count(mend.wrong) for text in found.values()] != [1]:
            raise PluginError(
                f"kitchen/hooks/search.py: the theme's {mend.script} no longer holds {mend.wrong!r}. "
                f"Without this hook, {mend.seen}: if all is well, remove the entry; else mend the new code."
            )
        texts |= {path: text.replace(mend.wrong, mend.right) for path, text in found.items()}
    for path, text in texts.items():
        path.write_text(text, "utf-8")
