"""The rules of the back end chooser: read from chooser.toml, applied, and shown as a list on its page.

The page's script applies the same rules to the same data (docs/assets/js/tools/chooser/logic.js); a test runs both over
every combination of answers. What the records say about a rule is in :mod:`kitchen.evidence`.
"""

from __future__ import annotations

import itertools
import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from kitchen.context import Language, PageError, State, did_you_mean
from kitchen.format import escape, escape_words

RULES = Path(__file__).with_name("chooser.toml")

Json = dict[str, Any]
#: A question's id to an answer's id; a question that has none is open.
Answers = Mapping[str, str]
#: A question's id to the answers for which something holds; a question without an entry does not matter.
When = Mapping[str, list[str]]

COMMENT = re.compile(r"# @(\w+)")
FIELDS = {"kind", "snippet", "where", "name", "columns", "page", "say", "start", "device"}
KINDS = {"rows", "winners", "least_total"}


@lru_cache(maxsize=4)
def _read(path: Path, mtime_ns: int) -> Json:
    with path.open("rb") as file:
        found: Json = tomllib.load(file)
    _check(found, path.name)
    return found


def data() -> Json:
    """chooser.toml as it stands now."""
    return _read(RULES, RULES.stat().st_mtime_ns)


def _check(found: Json, where: str) -> None:
    """PageError, with the place, where a rule names what is not there."""
    answers = {question["id"]: [answer["id"] for answer in question["answers"]] for question in found["question"]}
    known = {recommendation["id"] for recommendation in found["recommendation"]}

    def check_when(when: When, place: str) -> None:
        for question, values in when.items():
            if question not in answers:
                raise PageError(f"{where}: {place}: unknown question {question!r}{did_you_mean(question, answers)}")
            for value in values:
                if value not in answers[question]:
                    hint = did_you_mean(value, answers[question])
                    raise PageError(f"{where}: {place}: question {question!r} has no answer {value!r}{hint}")

    for question in found["question"]:
        check_when({question["id"]: [question["assume"]]}, f"question {question['id']!r}, assume")
    for rule in found["rule"]:
        place = f"rule {rule['id']!r}"
        check_when(rule["when"], place)
        if rule["take"] not in known:
            raise PageError(
                f"{where}: {place}: unknown recommendation {rule['take']!r}{did_you_mean(rule['take'], known)}"
            )
        for evidence in rule.get("evidence", []):
            if evidence["kind"] not in KINDS:
                raise PageError(f"{where}: {place}: unknown kind of evidence {evidence['kind']!r}")
            for key in evidence.keys() - FIELDS:
                raise PageError(f"{where}: {place}: unknown field {key!r} of evidence{did_you_mean(key, FIELDS)}")
    for recommendation in found["recommendation"]:
        for block in recommendation["code"]:
            place = f"recommendation {recommendation['id']!r}, {block['file']}"
            check_when(block.get("when", {}), place)
            for key in set(COMMENT.findall(block["text"])) ^ set(block.get("comments", {})):
                raise PageError(f"{where}: {place}: comment {key!r} stands in the code or in the words, not in both")


# ---- applying ---------------------------------------------------------------------------------------------------


def questions() -> dict[str, list[str]]:
    """The answers of each question, in their order."""
    return {question["id"]: [answer["id"] for answer in question["answers"]] for question in data()["question"]}


def fits(when: When, answers: Answers) -> bool:
    """True where every condition holds; an open question fits none."""
    return all(answers.get(question) in values for question, values in when.items())


def rule_for(answers: Answers) -> Json:
    """The first rule that fits a full set of answers."""
    for rule in data()["rule"]:
        if fits(rule["when"], answers):
            return dict(rule)
    raise PageError(f"chooser.toml: no rule fits {dict(answers)}")


def assumed(answers: Answers) -> dict[str, str]:
    """``answers`` with the cautious one for each question that is open."""
    return {question["id"]: answers.get(question["id"], question["assume"]) for question in data()["question"]}


def completions(answers: Answers) -> Iterator[dict[str, str]]:
    """Every full set of answers that ``answers`` may become."""
    domain = questions()
    for values in itertools.product(*([answers[name]] if name in answers else domain[name] for name in domain)):
        yield dict(zip(domain, values, strict=True))


@lru_cache(maxsize=2)
def _taken(path: Path, mtime_ns: int) -> dict[tuple[str, ...], str]:
    return {tuple(full.values()): str(rule_for(full)["id"]) for full in completions({})}


def outcomes() -> list[tuple[dict[str, str], str]]:
    """Every full set of answers with the rule that is taken."""
    names = list(questions())
    taken = _taken(RULES, RULES.stat().st_mtime_ns)
    return [(dict(zip(names, values, strict=True)), rule) for values, rule in taken.items()]


def survey(answers: Answers) -> tuple[list[str], list[str]]:
    """What is left open: the rules that may still be taken, and the questions whose answer can still change which."""
    domain = questions()
    taken = _taken(RULES, RULES.stat().st_mtime_ns)
    outcome = {key: taken[key] for key in (tuple(full.values()) for full in completions(answers))}
    possible = set(outcome.values())
    matters = []
    for place, name in enumerate(domain):
        if name in answers:
            continue
        seen: dict[tuple[str, ...], str] = {}
        if any(seen.setdefault((*key[:place], *key[place + 1 :]), rule) != rule for key, rule in outcome.items()):
            matters.append(name)
    return [rule["id"] for rule in data()["rule"] if rule["id"] in possible], matters


def steps_of(answer: str) -> int:
    """The number of steps by which the records are asked about an answer."""
    found = next(question for question in data()["question"] if question["id"] == "steps")
    return int(next(entry["n"] for entry in found["answers"] if entry["id"] == answer))


def code_of(text: str, answers: Answers) -> str:
    """A call or a piece of code with what the answers put into it."""
    full = assumed(answers)
    flag = " --training" if full["workload"] == "training" else ""
    return text.replace("{steps}", str(steps_of(full["steps"]))).replace("{training}", flag)


def commented(block: Json, language: Language) -> str:
    """The code of a block with its comments in the page's language."""
    words = block.get("comments", {})
    code: str = COMMENT.sub(lambda match: f"# {words[match.group(1)][language]}", block["text"])
    return code.strip("\n") + "\n"


# ---- on the page ------------------------------------------------------------------------------------------------

WORDS: dict[str, dict[Language, str]] = {
    "if": {"en": "If", "zh": "如果"},
    "risk": {"en": "Risk: ", "zh": "风险："},
    "colon": {"en": ": ", "zh": "："},
    "or": {"en": " or ", "zh": "或"},
}


def condition_words(when: When, language: Language) -> list[tuple[str, str]]:
    """A rule's conditions as (question, answers) in short words."""
    found = []
    for question in data()["question"]:
        if question["id"] in when:
            short = {answer["id"]: answer["short"][language] for answer in question["answers"]}
            values = WORDS["or"][language].join(short[value] for value in when[question["id"]])
            found.append((question["short"][language], values))
    return found


def rules_list(state: State) -> str:
    """The rules in their order, as HTML; the script of the tool marks the one that was taken."""
    language = state.language
    titles = {recommendation["id"]: recommendation for recommendation in data()["recommendation"]}
    lines = ['<ol class="ck-rules">']
    for rule in data()["rule"]:
        take = titles[rule["take"]]
        when = "".join(
            f"<li>{escape(question)}{WORDS['colon'][language]}<b>{escape(values)}</b></li>"
            for question, values in condition_words(rule["when"], language)
        )
        only = {name: values[0] for name, values in rule["when"].items() if len(values) == 1}
        call = code_of(take["call"].replace("{steps}", "N"), only)
        written = f"<code>{escape(call)}</code>" if call else ""  # the title says it
        lines.append(
            f'<li id="rule-{escape(rule["id"])}" data-ck-rule="{escape(rule["id"])}">'
            f'<ul class="ck-rules__when" aria-label="{WORDS["if"][language]}">{when}</ul>'
            f'<p class="ck-rules__take"><strong>{escape_words(take["title"][language])}</strong> {written}</p>'
            f"<p>{escape_words(rule['because'][language])}</p>"
            f'<p class="ck-rules__risk">{WORDS["risk"][language]}{escape_words(rule["risk"][language])}</p></li>'
        )
    return "\n" + "\n".join([*lines, "</ol>"]) + "\n"
