"""labels.toml: complete in both languages, for every real record, and true to the glossary."""

from __future__ import annotations

import ast
import re
import signal
import string
from pathlib import Path
from typing import Any

import pytest

from kitchen import claims, context, data, formulas, glossary, labels, problems, results, runner
from kitchen.context import LANGUAGES, PageError

KITCHEN = Path(labels.__file__).parent
LABELS = labels.data()


def records() -> list[results.Record]:
    return results.load_records(context.ROOT / "results")


def fields(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}


@pytest.mark.parametrize("name", list(LABELS["columns"]))
def test_every_column_has_words_and_a_meaning_in_both_languages(name: str) -> None:
    entry: dict[str, Any] = LABELS["columns"][name]
    for language in LANGUAGES:
        assert entry[language].strip()
        assert entry[f"{language}_meaning"].strip()
        assert not entry[f"{language}_meaning"].endswith((".", "。"))
    known = {"en", "zh", "en_meaning", "zh_meaning", "unit", "format", "spread", "best", "words", "per_cell"}
    assert set(entry) <= known
    assert entry.get("format", "") in ("", "number", "integer", "count", "scientific", "text", "code")
    assert entry.get("best", "") in ("", "min", "max")
    assert len(entry.get("spread", ["", ""])) == 2


@pytest.mark.parametrize("key", list(LABELS["messages"]))
def test_every_message_has_the_same_places_in_both_languages(key: str) -> None:
    entry = LABELS["messages"][key]
    assert fields(entry["en"]) == fields(entry["zh"])
    assert set(entry) <= {"en", "zh", "en_one"}
    assert fields(entry.get("en_one", entry["en"])) == fields(entry["en"])


def test_every_message_that_the_code_asks_for_is_there_and_none_is_idle() -> None:
    strings: set[str] = set()
    for path in KITCHEN.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                strings.add(node.value)
    built = {f"t_{k}" for k in ("symbol", "meaning", "value", "measured")}
    built |= {f"m_{k}" for k in ("complete", "interrupted", "running")}
    built |= {f"v_tally_{k}" for k in ("faster", "slower", "same")} | {f"v_pick_{k}" for k in ("cold", "warm")}
    states = ("provoked", "gone", "unfixed", "unknown", "failed", "timeout", "unavailable")
    built |= {f"p{middle}_{k}" for middle in ("", "_badge", "_other") for k in states}
    built |= {f"p_not_run_{k}" for k in problems.NOT_RUN} | {f"c_{k}" for k in claims.VERDICTS}
    built |= {f"c_{k}" for k in ("number", "claim", "verdict")}
    assert built <= set(LABELS["messages"])
    assert set(LABELS["messages"]) <= strings | built
    for source in (KITCHEN / "verdicts.py", KITCHEN / "blocks.py", KITCHEN / "charts.py", KITCHEN / "inventory.py"):
        for key in re.findall(r'message\(\s*"([a-z_]+)"', source.read_text("utf-8")):
            assert key in LABELS["messages"]


@pytest.mark.parametrize("column", list(LABELS["values"]))
def test_every_value_is_in_both_languages(column: str) -> None:
    for value, entry in LABELS["values"][column].items():
        assert entry["en"], value
        assert entry["zh"], value
        assert ("en_name" in entry) == ("zh_name" in entry)


def test_every_note_pattern_is_valid_and_uses_its_groups() -> None:
    for entry in LABELS["notes"]:
        groups = re.compile(entry["pattern"]).groups
        for language in LANGUAGES:
            used = {int(n) for n in re.findall(r"\{(\d+)\}", entry[language])}
            assert used == set(range(1, groups + 1))


def test_every_column_of_the_real_records_has_a_label() -> None:
    missing = set()
    for record in records():
        for row in record.rows:
            for name in row:
                if not name.startswith("samples_") and not labels.column(name, "en", record.snippet).labelled:
                    missing.add(f"{record.snippet}: {name}")
    assert not missing


#: Columns of the comparison tool that hold words of ours.
TOOL = ("variant", "model", "workload", "failure", "phase", "method", "trial")


def test_every_word_of_the_real_records_has_a_translation() -> None:
    missing = set()
    for record in records():
        for row in record.rows:
            for name in ("status", "verdict", "how", "kind", "clock", "place", "part", "break_even_text", *TOOL):
                value = row.get(name)
                if name == "variant" and value not in (None, "eager", "eager again"):
                    continue  # a name that stands in code
                if isinstance(value, str) and value not in LABELS["values"].get(name, {}):
                    missing.add(f"{record.snippet}: {name} = {value}")
            if data.row_ok(row) and isinstance(row.get("note"), str) and row["note"]:
                note = row["note"]
                if labels.note(note, "zh") == note:
                    missing.add(f"{record.snippet}: note {note}")
    assert not missing


def test_english_and_chinese_words_keep_to_the_glossary() -> None:
    if not glossary.TERMS.exists():
        pytest.skip("no docs/terms.toml")
    texts: dict[str, list[str]] = {"en": [], "zh": []}
    for group in ("columns", "messages"):
        for entry in LABELS[group].values():
            for key, text in entry.items():
                if key[:2] in texts and isinstance(text, str):
                    texts[key[:2]].append(text)
    for column in LABELS["values"].values():
        for entry in column.values():
            texts["en"].append(entry["en"])
            texts["zh"].append(entry["zh"])
    for name in formulas.names():
        for term in formulas.get(name)["term"]:
            texts["en"] += [term["en"], term.get("where_en", "")]
            texts["zh"] += [term["zh"], term.get("where_zh", "")]
    for term in glossary.load():
        for word in term.get("avoid_en", []):
            pattern = re.compile(rf"(?<![\w.-]){re.escape(word)}(?![\w-])", re.IGNORECASE)
            assert not [t for t in texts["en"] if pattern.search(re.sub(r"`[^`]*`|\{\w+\}|\bbackend=", "", t))], word
        for word in term.get("avoid_zh", []):
            assert not [t for t in texts["zh"] if word in t], word


def test_a_snippets_own_label_goes_first() -> None:
    general = labels.column("total_s", "en")
    own = labels.column("total_s", "en", "overview/four_backends")
    assert general.spread == ("total_low_s", "total_high_s")
    assert own.spread is None


def test_a_note_is_translated_with_its_parts_or_left_as_it_is() -> None:
    assert labels.note("no answer within 120 s", "zh") == "120 s 内没有结果"
    assert labels.note("Kaboom: {1}", "zh") == "Kaboom: {1}"
    inner = labels.note("the process ended with code 3: {1} {2}", "zh")
    assert inner == "进程以代码 3 结束：{1} {2}"


@pytest.mark.parametrize(
    "reason",
    [
        "needs a CUDA GPU: this torch is a build without CUDA",
        "needs a CUDA GPU: no GPU or driver was found",
        "needs a C++ compiler: 'g++' does not run (install g++, or point the environment variable CXX at a compiler)",
        "needs Triton: the package triton is not installed (it comes with CUDA builds of torch)",
        "needs redis-server: it is not on the PATH",
        "stopped: wrote more than 64 MiB of output",
        *(runner._death(-int(code)) for code in signal.Signals),
        runner._death(-77),
        runner._death(3),
    ],
)
def test_a_reason_of_the_runner_is_told_in_chinese_too(reason: str) -> None:
    written = "".join((KITCHEN / f"{name}.py").read_text("utf-8") for name in ("child", "runner"))
    assert reason.split(" ")[0] in written
    told = labels.note(reason, "zh")
    assert not re.search(r"[a-z]+ [a-z]+ ", told), told
    assert labels.note(reason, "en").split(" ")[0] == reason.split(" ")[0]


def test_a_reason_stands_as_a_sentence() -> None:
    reason = "needs a CUDA GPU: this torch is a build without CUDA"
    assert labels.sentence(labels.note(reason, "en"), "en").startswith("Needs a CUDA GPU")
    assert labels.sentence(labels.note(reason, "zh"), "zh").endswith("版本。")
    assert labels.sentence("torch.compile failed", "en") == "torch.compile failed."
    assert labels.sentence("Kaboom!", "zh") == "Kaboom!"
    assert labels.sentence("", "en") == ""


def test_lists_read_as_each_language_does() -> None:
    assert labels.listing(["a", "b", "c"], "en") == "a, b and c"
    assert labels.listing(["a", "b", "c"], "zh") == "a、b和c"
    assert labels.listing([], "en") == ""


def test_an_unknown_message_is_an_error() -> None:
    with pytest.raises(PageError, match="did you mean 'not_measured'"):
        labels.message("not_mesured", "en")
    with pytest.raises(PageError, match="no language 'fr'"):
        context.language_of("fr")
