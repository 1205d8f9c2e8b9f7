"""The data of the back end chooser: its questions, rules and recommendations, and what the records say to each rule."""

from __future__ import annotations

from typing import Any

from kitchen import chooser, evidence
from kitchen.context import Language
from kitchen.tools import Payload

Json = dict[str, Any]


def _in(language: Language, entry: Json, *keys: str) -> Json:
    """The words of an entry under these keys, in one language."""
    return {key: entry[key][language] for key in keys if key in entry}


def _question(entry: Json, language: Language) -> Json:
    answers = [
        {"id": answer["id"], "n": answer.get("n")} | _in(language, answer, "say", "short")
        for answer in entry["answers"]
    ]
    return {"id": entry["id"], "assume": entry["assume"], "answers": answers} | _in(
        language, entry, "ask", "hint", "short"
    )


def _recommendation(entry: Json, language: Language) -> Json:
    blocks = [
        {"file": block["file"], "runs": block["runs"], "when": block.get("when", {})}
        | {"text": chooser.commented(block, language)}
        for block in entry["code"]
    ]
    more = [evidence.page_link(target, language) for target in entry["more"]]
    return {"id": entry["id"], "call": entry["call"], "code": blocks, "more": more} | _in(language, entry, "title")


def _rule(entry: Json, language: Language) -> Json:
    found = evidence.resolve(entry, language)
    return (
        {"id": entry["id"], "when": entry["when"], "take": entry["take"], "evidence": found}
        | _in(language, entry, "because", "risk", "unmeasured")
        | {"whyNot": evidence.why_not(entry, found, language)}
    )


def payload(language: Language) -> Payload:
    """Everything that the page's script needs to ask, to decide and to show."""
    found = chooser.data()
    return Payload(
        {
            "questions": [_question(entry, language) for entry in found["question"]],
            "recommendations": [_recommendation(entry, language) for entry in found["recommendation"]],
            "rules": [_rule(entry, language) for entry in found["rule"]],
        }
    )
