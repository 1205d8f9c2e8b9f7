"""The back end chooser: its rules over every combination of answers, against the records, and its code on a CPU."""

from __future__ import annotations

import ast
import copy
import dataclasses
import functools
import itertools
import json
import os
import random
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kitchen import chooser, data, evidence, labels, results, tables, tools
from kitchen.context import LANGUAGES, ROOT, Language, PageError, State
from snippets.measuring import compare_backends
from tests import node, site_fixtures

Json = dict[str, Any]
RULES: list[Json] = chooser.data()["rule"]
QUESTIONS = chooser.questions()
RECOMMENDATIONS: dict[str, Json] = {one["id"]: one for one in chooser.data()["recommendation"]}
#: What must have been answered, not assumed, before it is recommended; and with which answers alone.
BOLD: dict[str, dict[str, set[str]]] = {
    "reduce-overhead": {
        "hardware": {"nvidia"},
        "flow": {"static"},
        "shapes": {"fixed", "few"},
        "workload": {"inference"},
        "deploy": {"process", "native"},
    },
    "cudagraphs": {"hardware": {"nvidia"}, "flow": {"static"}, "shapes": {"fixed", "few"}},
    "max-autotune": {
        "hardware": {"nvidia"},
        "steps": {"millions"},
        "code": {"settled"},
        "shapes": {"fixed"},
        "flow": {"static"},
        "deploy": {"process", "native"},
    },
    "dynamic=False": {"shapes": {"fixed", "few"}},
    "aoti_compile_and_package": {"deploy": {"native"}, "workload": {"inference"}},
}


def rule_of(rule: str) -> Json:
    """A rule by its id."""
    return next(one for one in RULES if one["id"] == rule)


def code_in(recommendation: Json) -> str:
    """The call and the code of a recommendation without comments: what a reader would run."""
    return "\n".join(
        [recommendation["call"], *(chooser.COMMENT.sub("", block["text"]) for block in recommendation["code"])]
    )


def partial_answers() -> list[dict[str, str]]:
    """Every set of answers, with any questions left open."""
    choices = [[None, *answers] for answers in QUESTIONS.values()]
    return [
        {name: value for name, value in zip(QUESTIONS, values, strict=True) if value is not None}
        for values in itertools.product(*choices)
    ]


# ---- the rules themselves


def test_every_path_ends_in_an_answer_and_every_rule_is_reached() -> None:
    paths = chooser.outcomes()
    wanted = 1
    for answers in QUESTIONS.values():
        wanted *= len(answers)
    assert len(paths) == wanted
    reached = {rule for _, rule in paths}
    assert reached == {rule["id"] for rule in RULES}, "a rule that an earlier one always takes the place of"
    assert {rule_of(rule)["take"] for rule in reached} == set(RECOMMENDATIONS), "a recommendation nobody is given"


def test_no_condition_of_a_rule_is_idle() -> None:
    """Without it the rule would be taken by others too; else it only looks like a condition.

    The hardware may be said where the order of the rules already implies it: a rule must not come to mean another.
    """
    for place, rule in enumerate(RULES):
        taken = {tuple(full.values()) for full, taken_rule in chooser.outcomes() if taken_rule == rule["id"]}
        for question in rule["when"].keys() - {"hardware"}:
            wider = {name: values for name, values in rule["when"].items() if name != question}
            reach = {
                tuple(full.values())
                for full, _ in chooser.outcomes()
                if chooser.fits(wider, full) and not any(chooser.fits(one["when"], full) for one in RULES[:place])
            }
            assert reach > taken, f"{rule['id']}: {question}"


@pytest.mark.parametrize("words", BOLD)
def test_nothing_bold_where_it_can_not_work(words: str) -> None:
    bold = [one for one in RECOMMENDATIONS.values() if words in re.sub(r"(?<=-no-)cudagraphs", "", code_in(one))]
    if words in ("cudagraphs", "dynamic=False"):
        # By itself never recommended; what is here would have to keep to the rule below.
        assert not [one["id"] for one in bold if one["id"] != "recorded"]
    else:
        assert bold
    for full, rule in chooser.outcomes():
        if any(rule_of(rule)["take"] == one["id"] for one in bold):
            wrong = {name: full[name] for name, allowed in BOLD[words].items() if full[name] not in allowed}
            assert not wrong, f"{rule}: {words} for {wrong}"


def test_nothing_bold_on_an_assumption() -> None:
    wanted = {"hardware", "shapes", "steps", "deploy", "goal"}
    for answers in partial_answers():
        rule = chooser.rule_for(chooser.assumed(answers))
        if rule["take"] in {"recorded", "tuned", "package", "ship", "train", "default"}:
            assert wanted & set(rule["when"]) <= set(answers), f"{answers}: {rule['id']}"
            assert rule["take"] not in {"recorded", "tuned"} or {"hardware", "shapes"} <= set(answers)


def test_few_steps_and_code_that_changes_are_never_compiled_here() -> None:
    for full, rule in chooser.outcomes():
        native = full["deploy"] == "native" and full["workload"] == "inference"
        if full["code"] == "changing" or (full["steps"] == "few" and not native):
            take = RECOMMENDATIONS[rule_of(rule)["take"]]
            assert (take["call"], take["takes"]) == ("", "eager"), f"{full}: {take['id']}"


def test_a_training_job_gets_no_code_for_inference() -> None:
    for full, rule in chooser.outcomes():
        if full["workload"] == "training":
            take = RECOMMENDATIONS[rule_of(rule)["take"]]
            for block in take["code"]:
                if chooser.fits(block.get("when", {}), full):
                    assert not re.search(r"inference_mode|no_grad|\.eval\(\)", block["text"]), (
                        f"{rule}: {block['file']}"
                    )


def test_a_newcomer_has_an_answer_after_at_most_eight_questions_and_often_sooner() -> None:
    survey = functools.cache(lambda answers: chooser.survey(dict(answers)))
    lengths = []
    for full, rule in chooser.outcomes():
        answers: dict[str, str] = {}
        while left := survey(tuple(answers.items()))[1]:
            answers[left[0]] = full[left[0]]
        assert survey(tuple(answers.items()))[0] == [rule]
        lengths.append(len(answers))
    shares = {most: sum(asked <= most for asked in lengths) / len(lengths) for most in range(1, 9)}
    print(shares)
    assert max(lengths) <= len(QUESTIONS)
    assert shares[4] > 0.6


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda found: found["rule"][0].update(take="lok"), "unknown recommendation 'lok': did you mean 'look'"),
        (lambda found: found["rule"][0]["when"].update(hardwear=["cpu"]), "unknown question 'hardwear'.*'hardware'"),
        (lambda found: found["rule"][0]["when"].update(hardware=["cpus"]), "no answer 'cpus'.*'cpu'"),
        (lambda found: found["question"][0].update(assume="often"), "question 'code', assume: .*no answer 'often'"),
        (lambda found: found["rule"][0]["evidence"][0].update(kind="guess"), "unknown kind of evidence 'guess'"),
        (lambda found: found["rule"][0]["evidence"][0].update(wher={}), "unknown field 'wher'.*'where'"),
        (lambda found: found["recommendation"][0]["code"][0]["comments"].pop("yours"), "comment 'yours'"),
    ],
)
def test_a_fault_in_the_file_is_named(change: Any, message: str) -> None:
    found = copy.deepcopy(chooser.data())
    chooser._check(found, "chooser.toml")
    change(found)
    with pytest.raises(PageError, match=message):
        chooser._check(found, "chooser.toml")


def test_everything_is_said_in_both_languages() -> None:
    def walk(value: Any, place: str) -> None:
        if isinstance(value, dict):
            if "en" in value or "zh" in value:
                assert set(value) == set(LANGUAGES), place
                assert all(value.values()), place
                assert set(re.findall(r"\{\w+\}", value["en"])) == set(re.findall(r"\{\w+\}", value["zh"])), place
                return
            for key, inner in value.items():
                walk(inner, f"{place}.{key}")
        elif isinstance(value, list):
            for index, inner in enumerate(value):
                walk(inner, f"{place}[{inner.get('id', index) if isinstance(inner, dict) else index}]")

    walk(chooser.data(), "chooser.toml")


# ---- the page's script and this side agree


def by_script(script: str, given: Any) -> Any:
    """What a piece of JavaScript gives; ``m`` is the logic, ``p`` the payload, ``given`` what is given."""
    payload = json.loads(tools.files("chooser", "en")["chooser"])
    return node.answer(f"((p, given) => {script})(...given)", [payload, given], m="chooser/logic.js")


def test_the_script_takes_the_same_rule_for_every_combination() -> None:
    paths = chooser.outcomes()
    script = "given.map((answers) => m.ruleFor(p.rules, answers).id)"
    assert by_script(script, [full for full, _ in paths]) == [rule for _, rule in paths]


def test_the_script_assumes_the_same_for_every_part_of_the_answers() -> None:
    parts = partial_answers()
    script = "given.map((answers) => m.ruleFor(p.rules, m.assumed(p.questions, answers)).id)"
    assert by_script(script, parts) == [chooser.rule_for(chooser.assumed(part))["id"] for part in parts]


def test_the_script_knows_what_is_still_open() -> None:
    parts = [{}, *random.Random(5).sample(partial_answers(), 250)]
    script = (
        "given.map((answers) => { const s = m.survey(p.questions, p.rules, answers); return [s.possible, s.matters]; })"
    )
    assert by_script(script, parts) == [list(chooser.survey(part)) for part in parts]


def test_the_script_fills_in_the_same_code() -> None:
    pairs = [
        (chooser.assumed(full), text)
        for full in ({"steps": "millions"}, {"workload": "training"}, {"steps": "few", "workload": "training"})
        for text in {one["call"] for one in RECOMMENDATIONS.values()}
    ]
    script = "given.map(([full, text]) => m.codeOf(text, p.questions, full))"
    assert by_script(script, pairs) == [chooser.code_of(text, full) for full, text in pairs]


# ---- the evidence


def test_every_reference_is_there() -> None:
    for rule in RULES:
        for entry in rule.get("evidence", []):
            place = f"{rule['id']}, {entry['snippet']}"
            if entry["kind"] != "rows":
                continue
            shown = data.views(entry["snippet"])
            data.check_columns(entry["snippet"], shown, [*entry["columns"], *entry["name"], *entry["where"]])
            data.check_where(entry["snippet"], shown, entry["where"])
            for column in entry["columns"]:
                assert labels.column(column, "en", entry["snippet"]).labelled, f"{place}: {column}"


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_link_leads_to_a_heading(language: Language) -> None:
    targets = {entry["page"] for rule in RULES for entry in rule.get("evidence", [])}
    targets |= {target for one in RECOMMENDATIONS.values() for target in one["more"]}
    for target in targets:
        path, _, anchor = target.partition("#")
        text = Path(ROOT, "docs", language, path).read_text("utf-8")
        assert not anchor or f"{{#{anchor}}}" in text, target
        assert target not in evidence.page_link(target, language)["title"]
    assert evidence.page_link("measuring/results.md#pays", "en")["url"] == "measuring/results/#pays"
    assert evidence.page_link("choosing/index.md#budget", "en")["url"] == "choosing/#budget"


def model_rows() -> list[tuple[str, list[Json]]]:
    """The rows of every model and workload on every machine, as compare_backends wrote them."""
    found = []
    for name in [name for name in data.snippet_names() if name.startswith("models/")]:
        for view in data.views(name):
            found += [(f"{name} {key}", rows) for key, rows in evidence._cases(view).items()]
    return found


@pytest.mark.parametrize("start", ["cold", "warm"])
def test_who_wins_is_who_the_records_picked(start: str) -> None:
    assert len(model_rows()) > 10
    for name, rows in model_rows():
        won = evidence.winner(rows, rows[0]["steps"], start)
        assert won is not None
        assert won[f"pick_{start}"] is True, name


@pytest.mark.parametrize("steps", [1, 300, 3_000, 10_000, 21_000, 100_000, 1_000_000, 10**9])
def test_who_wins_is_who_the_tool_would_pick(steps: int) -> None:
    known = {field.name for field in dataclasses.fields(compare_backends.Row)}
    for (name, rows), start in itertools.product(model_rows(), ("cold", "warm")):
        theirs = [
            compare_backends.Row(**{k: v for k, v in row.items() if k in known} | {"steps": steps}) for row in rows
        ]
        picked, why = compare_backends.pick(theirs, start)
        won = evidence.winner(rows, steps, start)
        assert picked is not None
        assert won is not None
        assert won["variant"] == picked.variant, f"{name}, {steps}, {start}: {why}"


def disagreements() -> list[str]:
    """Rules whose recommendation is not what won in the records, with no sentence on the page that says why not."""
    found = []
    for rule in RULES:
        takes = RECOMMENDATIONS[rule["take"]]["takes"]
        items = evidence.resolve(rule, "en")
        told = [said["when"] for said in evidence.why_not(rule, items, "en")]
        for item in items:
            for machine in item["machines"]:
                if item["kind"] == "winners":
                    winners = {"eager" if case["wins"] == "eager" else "inductor" for case in machine["cases"]}
                elif item["kind"] == "least_total":
                    winners = {"eager" if machine["ranked"][0]["id"] == "none" else "inductor"}
                else:
                    continue
                if winners != {takes} and item["when"] not in told:
                    found.append(f"{rule['id']}: takes {takes}, won: {sorted(winners)} ({item['when']})")
    return found


def test_a_recommendation_is_what_won_or_the_page_says_why_not() -> None:
    assert disagreements() == []


def test_every_rule_rests_on_records_or_says_that_there_are_none() -> None:
    for rule in RULES:
        kinds = {entry["kind"] for entry in rule.get("evidence", [])}
        hardware = rule["when"].get("hardware", list(QUESTIONS["hardware"]))
        if "cpu" in hardware and rule["take"] not in ("package", "package_sizes", "rewrite", "look"):
            assert kinds & {"winners", "least_total"}, rule["id"]
        elif rule["id"] != "editing":
            assert "unmeasured" in rule, rule["id"]
        if RECOMMENDATIONS[rule["take"]]["takes"] == "either" and kinds & {"winners", "least_total"}:
            assert "why_not" in rule, rule["id"]


def test_the_reference_machine_speaks_to_each_cpu_rule() -> None:
    for rule in RULES:
        if rule["when"].get("hardware") == ["cpu"]:
            for item in evidence.resolve(rule, "en"):
                assert item["machines"], f"{rule['id']}: {item}"
                assert all(machine["device"] == "cpu" for machine in item["machines"])


def test_numbers_are_shown_as_in_the_tables() -> None:
    (view,) = [view for view in data.views("models/resnet18") if view.machine.name == "amd-epyc-turin-2vcpu"]
    row = data.select(view.record.rows, {"variant": "inductor", "workload": "inference"})[0]
    for name in ("speedup_ratio", "break_even_cold", "compile_cold_s", "graphs"):
        column = labels.column(name, "en", "models/resnet18")
        shown = evidence.cell("models/resnet18", name, row, "en")
        in_table = tables.number_cell(column, row, None)
        assert shown["value"] == re.sub(r"<br>.*", "", in_table)
        ends = re.search(r'<small class="ck-spread">(.*)</small>', in_table)
        assert (ends is None) == ("interval" not in shown)
        if ends:
            assert shown["interval"].replace("\u202f", "").removesuffix("s") == ends[1].replace("\u202f", "") + (
                "×" if name == "speedup_ratio" else ""
            )


def test_what_is_never_has_words() -> None:
    (view,) = [view for view in data.views("models/mlp") if view.machine.name == "amd-epyc-turin-2vcpu"]
    row = data.select(view.record.rows, {"variant": "inductor", "workload": "inference"})[0]
    assert evidence.cell("models/mlp", "break_even_cold", row, "en") == {"value": "never"}
    assert evidence.cell("models/mlp", "verdict", row, "zh")["value"] == labels.text_value("verdict", "slower", "zh")
    open_end = row | {"break_even_cold": 40_000, "break_even_cold_low": 30_000, "break_even_cold_high": None}
    assert evidence.cell("models/mlp", "break_even_cold", open_end, "en") == {"value": "40,000", "interval": "30,000–∞"}


@pytest.fixture
def with_records(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Lets a test put other records in place."""

    def put(folder: Path) -> None:
        monkeypatch.setattr(results, "RESULTS", folder)

    return put


@pytest.mark.parametrize("language", LANGUAGES)
def test_without_records_the_rules_still_stand(tmp_path: Path, with_records: Any, language: Language) -> None:
    with_records(tmp_path)
    payload = json.loads(tools.files("chooser", language)["chooser"])
    assert [rule["id"] for rule in payload["rules"]] == [rule["id"] for rule in RULES]
    assert not any(item["machines"] for rule in payload["rules"] for item in rule["evidence"])
    assert not any(rule["whyNot"] for rule in payload["rules"])


def gpu_machine(folder: Path, verdict: str) -> Path:
    """The repository's records and a made-up GPU machine, on which Inductor is ``verdict`` for every model."""
    site_fixtures.two_machines(folder)
    for path in (folder / site_fixtures.SECOND_MACHINE).glob("*/models/*.json"):
        record = json.loads(path.read_text("utf-8"))
        for row in record["rows"]:
            row["device"] = "cuda"
            if row["variant"] == "inductor":
                ratio = {"faster": 4.0, "slower": 0.5}[verdict]
                row |= {"verdict": verdict, "status": "ok", "speedup_ratio": ratio}
                row |= {"speedup_low": ratio * 0.99, "speedup_high": ratio * 1.01, "ran": "yes"}
                for end in ("", "_low", "_high"):
                    row |= {f"compile_cold{end}_s": 0.001, f"compile_warm{end}_s": 0.001}
            elif row["variant"] == "aot_eager":
                row["verdict"] = "slower"
        path.write_text(json.dumps(record), "utf-8")
    return folder


def test_a_gpu_that_agrees_fills_the_gaps(tmp_path: Path, with_records: Any) -> None:
    with_records(gpu_machine(tmp_path / "results", "faster"))
    (item,) = [one for one in evidence.resolve(rule_of("gpu-default"), "en") if one["kind"] == "winners"]
    assert [machine["machine"] for machine in item["machines"]] == ["Toy, second"]
    assert item["machines"][0]["won"] == item["machines"][0]["total"] > 5
    # What is about a CPU only stays with the CPU.
    for item in evidence.resolve(rule_of("cpu-millions"), "en"):
        assert {machine["device"] for machine in item["machines"]} == {"cpu"}
    found = disagreements()
    # Over so few steps the made-up GPU would pay: the rule would need its sentence.
    assert not [line for line in found if line.startswith(("gpu-", "container-", "cpu-"))]
    assert [line for line in found if line.startswith("short: takes eager")]


def test_a_gpu_that_disagrees_is_found(tmp_path: Path, with_records: Any) -> None:
    with_records(gpu_machine(tmp_path / "results", "slower"))
    found = disagreements()
    for rule in ("gpu-default", "gpu-training", "container-gpu"):
        assert [line for line in found if line.startswith(f"{rule}: takes inductor, won: ['eager']")], rule


@pytest.mark.parametrize("language", LANGUAGES)
def test_sentences_are_filled_in(language: Language) -> None:
    payload = json.loads(tools.files("chooser", language)["chooser"])
    told = [said["text"] for rule in payload["rules"] for said in rule["whyNot"]]
    assert len(told) > 5
    for text in told:
        assert "{" not in text
        assert re.search(r"\d", text)
    millions = next(rule for rule in payload["rules"] if rule["id"] == "cpu-millions")
    winners = millions["evidence"][0]["machines"][0]
    assert str(winners["won"]) in millions["whyNot"][0]["text"]
    assert winners["won"] == sum(case["wins"] != "eager" for case in winners["cases"])


# ---- on the page


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_page_lists_every_rule(language: Language) -> None:
    html = chooser.rules_list(State(language=language, url="tools/chooser/"))
    assert re.findall(r'<li id="rule-([\w-]+)"', html) == [rule["id"] for rule in RULES]
    for one in RECOMMENDATIONS.values():
        if one["call"]:
            assert html.count("<code>torch.compile(model)</code>") >= 1
    assert "\n\n" not in html.strip()
    assert "`" not in html


# ---- the code to copy


def files_of(recommendation: str) -> list[tuple[str, dict[str, str], list[Json]]]:
    """The distinct sets of blocks that a recommendation may show: a name, the answers, the blocks."""
    seen: dict[str, tuple[str, dict[str, str], list[Json]]] = {}
    for full, rule in chooser.outcomes():
        if rule_of(rule)["take"] != recommendation:
            continue
        blocks = [
            block | {"text": chooser.code_of(block["text"], full)}
            for block in RECOMMENDATIONS[recommendation]["code"]
            if chooser.fits(block.get("when", {}), full)
        ]
        key = "\0".join(block["text"] for block in blocks)
        seen.setdefault(key, (f"{recommendation}-{full['workload']}-{full['steps']}", full, blocks))
    return list(seen.values())


SETS = [one for recommendation in RECOMMENDATIONS for one in files_of(recommendation)]
#: What must hold after a file has run, in the words of the page.
CHECKS = {
    "look.py": 'assert counters["stats"]["unique_graphs"] == 1',
    "uncompiled.py": "from torch._dynamo.utils import counters\nassert not counters['stats'].get('unique_graphs')",
    "parts.py": "from torch._dynamo.utils import counters\nassert counters['stats']['unique_graphs'] == 1\n"
    "assert not counters['graph_break']\nassert not any('_orig_mod' in name for name in model.state_dict())",
    "sizes.py": 'assert counters["stats"]["unique_graphs"] == 2',
    "train.py": "from torch._dynamo.utils import counters\nassert counters['stats']['unique_graphs'] == 1",
    "compiled.py": "from torch._dynamo.utils import counters\nassert counters['stats']['unique_graphs'] in (1, 2)",
    "package.py": "import pathlib\nassert pathlib.Path('model.pt2').is_file()",
    "rewritten.py": "import pathlib\nassert list(pathlib.Path().glob('*.pt2')) or path",
    "serve.py": "from torch._dynamo.utils import counters\nprint('hits', counters['inductor']['fxgraph_cache_hit'])",
}


def run_python(file: Path, **environment: str) -> str:
    """Run a file in its folder; the text that it printed."""
    done = subprocess.run(
        [sys.executable, file.name],
        cwd=file.parent,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "", **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


def test_every_recommendation_has_code_that_a_reader_can_judge() -> None:
    for one in RECOMMENDATIONS.values():
        assert one["code"], one["id"]
        for block in one["code"]:
            assert block["runs"] in {"cpu", "cached", "tool", "cuda", "not"}
            assert max(map(len, chooser.commented(block, "en").splitlines())) <= 130, f"{one['id']}, {block['file']}"
            if block["file"].endswith(".py"):
                assert (block["runs"] == "cuda") == (".cuda()" in block["text"]), f"{one['id']}, {block['file']}"


def test_code_differs_between_the_languages_only_in_its_comments() -> None:
    for one in RECOMMENDATIONS.values():
        for block in one["code"]:
            texts = [chooser.commented(block, language) for language in LANGUAGES]
            bare = [re.sub(r"#(?!include).*", "", text) for text in texts]
            assert bare[0] == bare[1]
            if block["file"].endswith(".py"):
                dumps = {ast.dump(ast.parse(text)) for text in texts}
                assert len(dumps) == 1
            assert "@" not in re.sub(r"import .*|x@w", "", texts[0]), block["file"]


@pytest.mark.parametrize(
    ("recommendation", "file"), [(o["id"], b["file"]) for o in RECOMMENDATIONS.values() for b in o["code"]]
)
def test_code_that_is_not_run_is_at_least_code(recommendation: str, file: str, tmp_path: Path) -> None:
    for block in RECOMMENDATIONS[recommendation]["code"]:
        if block["file"] != file:
            continue
        text = chooser.code_of(chooser.commented(block, "en"), {})
        if file.endswith(".py"):
            compile(text, file, "exec")
        elif file.endswith(".sh"):
            path = tmp_path / file
            path.write_text(text)
            subprocess.run(["bash", "-n", str(path)], check=True)
            for line in text.splitlines():
                if "compare_backends.py" in line:
                    _, tool, *arguments = shlex.split(line, comments=True)
                    assert tool == "compare_backends.py"
                    parsed = compare_backends.parser().parse_args(arguments)
                    assert parsed.model == "my_model.py:build"
                    assert parsed.steps == 10_000
        else:
            assert file == "main.cpp"


RUN = [one for one in SETS if any(block["runs"] == "cpu" and "def build" not in block["text"] for block in one[2])]
ONCE = {tuple(b["text"] for b in blocks if b["file"].endswith(".py")): (name, blocks) for name, _, blocks in RUN}


@pytest.mark.slow
@pytest.mark.parametrize("blocks", [blocks for _, blocks in ONCE.values()], ids=[name for name, _ in ONCE.values()])
def test_the_code_runs_on_a_cpu(blocks: list[Json], tmp_path: Path) -> None:
    for block in blocks:
        if block["file"].endswith(".py"):
            text = chooser.commented(block, "en") + "\n" + CHECKS.get(block["file"], "")
            (tmp_path / block["file"]).write_text(text, "utf-8")
    for block in blocks:
        if block["runs"] == "cpu":
            run_python(tmp_path / block["file"])


@pytest.mark.slow
@pytest.mark.parametrize("recommendation", ["ship", "measure_ship"])
def test_the_second_start_of_the_container_finds_the_cache(recommendation: str, tmp_path: Path) -> None:
    blocks = RECOMMENDATIONS[recommendation]["code"]
    for block in blocks:
        if block["file"].endswith(".py"):
            text = chooser.commented(block, "en") + "\n" + CHECKS.get(block["file"], "")
            (tmp_path / block["file"]).write_text(text, "utf-8")
    names = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "TMPDIR")
    run = next(block["text"] for block in blocks if block["file"] == "run.sh")
    environment = {name: str(tmp_path / "cache" / name.lower()) for name in names if name in run}
    assert "hits 0" in run_python(tmp_path / "serve.py", **environment)
    assert "hits 1" in run_python(tmp_path / "serve.py", **environment)
    # TMPDIR is in use, as the code promises: the precompiled header lies there.
    assert list((tmp_path / "cache" / "tmpdir").iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("workload", ["inference", "training"])
@pytest.mark.parametrize("recommendation", ["measure", "measure_sizes"])
def test_the_command_of_the_tool_runs(recommendation: str, workload: str, tmp_path: Path) -> None:
    shutil.copy(ROOT / "snippets" / "measuring" / "compare_backends.py", tmp_path)
    blocks = {block["file"]: chooser.commented(block, "en") for block in RECOMMENDATIONS[recommendation]["code"]}
    (tmp_path / "my_model.py").write_text(blocks["my_model.py"], "utf-8")
    command = shlex.split(chooser.code_of(blocks["measure.sh"], {"workload": workload}))
    assert command[0] == "python"
    assert ("--training" in command) == (workload == "training")
    done = subprocess.run(
        [
            sys.executable,
            *command[1:],
            "--seconds",
            "0.2",
            "--processes",
            "2",
            "--variants",
            "eager,inductor",
            "--quiet",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    assert "inductor" in done.stdout


@pytest.mark.slow
def test_the_program_without_python_compiles(tmp_path: Path) -> None:
    import torch.utils.cpp_extension

    (block,) = [block for block in RECOMMENDATIONS["package"]["code"] if block["file"] == "main.cpp"]
    (tmp_path / "main.cpp").write_text(block["text"], "utf-8")
    program = os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++")
    if program is None:
        pytest.skip("no C++ compiler")
    includes = [f"-I{path}" for path in torch.utils.cpp_extension.include_paths()]
    done = subprocess.run(
        [program, "-std=c++20", "-fsyntax-only", *includes, "main.cpp"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
