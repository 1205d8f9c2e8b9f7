"""kitchen/hooks/pages.py: what the site's pages get that Markdown does not give them."""

from __future__ import annotations

import pytest

from kitchen.hooks import pages

FORMULA = r'<span class="arithmatex">\(N^*\)</span>'


@pytest.mark.parametrize(
    ("html", "bound"),
    [
        (f"<p>见 {FORMULA}。再见。</p>", f"{FORMULA}。"),
        (f"<p>from {FORMULA}, on</p>", f"{FORMULA},"),
        (f"<p>一（{FORMULA}），二</p>", f"（{FORMULA}），"),
    ],
)
def test_a_formula_keeps_its_bracket_and_the_sign_after_it(html: str, bound: str) -> None:
    assert pages.keep_formulas_together(html) == html.replace(bound, f'<span class="ck-together">{bound}</span>')


@pytest.mark.parametrize(
    "html",
    [
        f"<p>from {FORMULA} steps on</p>",
        f"<pre><code>{FORMULA}.</code></pre>",
        '<div class="arithmatex">\\[N\\]</div>.',
        f'<th scope="row">{FORMULA}</th>',
    ],
)
def test_other_formulas_stay_as_they_are(html: str) -> None:
    assert pages.keep_formulas_together(html) == html


def test_a_long_name_in_a_table_can_be_broken_at_its_signs_and_no_other_is_touched() -> None:
    row = "<td>a <code>torch._dynamo.mark_dynamic(x, &lt;dim&gt;)</code> b</td><td><code>aot_eager</code></td>"
    wanted = row.replace("torch._dynamo.mark_dynamic(x", "torch.<wbr>_dynamo.<wbr>mark_<wbr>dynamic(<wbr>x")
    assert pages.break_code_in_cells(f"<table>{row}</table>") == f"<table>{wanted}</table>"
    prose = "<p><code>torch._dynamo.mark_dynamic</code></p>"
    assert pages.break_code_in_cells(prose) == prose
