"""The interactive tools: their data, their words, their places on the pages."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from kitchen import chooser, glossary, tools
from kitchen.context import LANGUAGES, Language, PageError, State
from kitchen.hooks.common import ROOT

JS = ROOT / "docs" / "assets" / "js" / "tools"
SHARED = {"title", "waiting", "without_script"}
#: In bytes of JSON; gzip makes about an eighth of it.
MOST = 1_500_000


def _no_constant(constant: str) -> None:
    pytest.fail(f"{constant} is no JSON")


def test_there_are_tools() -> None:
    assert tools.names()


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", tools.names())
def test_the_data_is_strict_json_of_modest_size(name: str, language: Language) -> None:
    for key, text in tools.files(name, language).items():
        assert re.fullmatch(rf"{name}(-[a-z0-9_]+)*", key)
        data = json.loads(text, parse_constant=_no_constant)
        assert isinstance(data, dict)
        assert len(text) < MOST


@pytest.mark.parametrize("name", tools.names())
def test_the_script_and_the_words_agree(name: str) -> None:
    code = "".join(path.read_text("utf-8") for path in (JS / name).glob("*.js"))
    used = set(re.findall(r"\bwords\.(\w+)", code))
    told = {language: tools.words(name, language) for language in LANGUAGES}
    assert used <= set(told["en"])
    # A key may also be put together by the script (words[`stage_${id}`]): its first part then stands there.
    stems = set(re.findall(r"words\[`(\w+?)\$\{", code))
    idle = {key for key in told["en"] if key not in used | SHARED and not key.startswith(tuple(stems) or "\0")}
    assert idle == set()
    for key, english in told["en"].items():
        assert set(re.findall(r"\{\w+\}", english)) == set(re.findall(r"\{\w+\}", told["zh"][key])), key


def test_a_tool_that_is_not_there_is_named() -> None:
    with pytest.raises(PageError, match="did you mean 'calculator'"):
        tools.render(State(url="tools/x/"), "calculater")


@pytest.mark.parametrize("name", tools.names())
def test_each_tool_has_its_page_in_both_languages(name: str) -> None:
    for language in LANGUAGES:
        assert f'tool("{name}")' in Path(ROOT, "docs", language, "tools", f"{name}.md").read_text("utf-8")


def _said(entry: object) -> Iterator[tuple[str, str]]:
    """Every text of a file of words with its language."""
    if isinstance(entry, dict):
        yield from ((key, text) for key, text in entry.items() if key in LANGUAGES and isinstance(text, str))
    for inner in entry.values() if isinstance(entry, dict) else entry if isinstance(entry, list) else ():
        yield from _said(inner)


@pytest.mark.parametrize(
    "path", [*sorted(tools.HERE.glob("**/*.toml")), chooser.RULES], ids=lambda path: f"{path.parent.name}/{path.name}"
)
def test_the_words_keep_to_the_glossary(path: Path) -> None:
    texts = list(_said(tomllib.loads(path.read_text("utf-8"))))
    assert {language for language, _ in texts} == set(LANGUAGES)
    for term in glossary.load():
        avoided = [re.compile(rf"(?<![\w.-]){re.escape(word)}(?![\w-])", re.IGNORECASE) for word in term["avoid_en"]]
        for language, text in texts:
            prose = re.sub(r"`[^`]*`|\{\w+\}", "", text)
            if language == "en":
                assert not any(word.search(prose) for word in avoided), (term["en"], text)
            else:
                assert not any(word in prose for word in term["avoid_zh"]), (term["zh"], text)
