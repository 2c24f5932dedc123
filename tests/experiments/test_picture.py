"""Pictures: the same bytes for the same numbers, and nothing lost that can be seen."""

import re

from matplotlib.figure import Figure

from fedmerit.experiments.picture import save, smaller


def drawn():
    figure = Figure(figsize=(3, 2))
    axes = figure.subplots()
    axes.plot([0.1234567, 2 / 3], [0, 1])
    axes.set_title("gain 0.123456 <!-- & -->")
    return figure


def test_the_same_figure_gives_the_same_bytes_and_its_letters_are_text(tmp_path):
    save(drawn(), tmp_path / "one.svg")
    save(drawn(), tmp_path / "two.svg")
    text = (tmp_path / "one.svg").read_text(encoding="utf-8")
    assert text == (tmp_path / "two.svg").read_text(encoding="utf-8")
    assert "gain 0.123456 &lt;!-- &amp; --&gt;" in text
    assert not re.search(r"\d+\.\d{2,}", "".join(re.findall(r' d="[^"]*"', text)))


def test_only_places_are_rounded():
    line = '<path d="M 1.23456 -0.0009 L 7.5 10.999" style="opacity: 0.123456"/>\n'
    assert smaller(f"  <!-- a -->\n  {line}") == (
        '<path d="M 1.2 0 L 7.5 11" style="opacity: 0.123456"/>\n'
    )
    assert smaller('<g transform="translate(0.4567 2) scale(0.015625)"/>') == (
        '<g transform="translate(0.5 2) scale(0.015625)"/>'
    )


def test_one_font_is_named_and_nothing_about_the_program(tmp_path):
    save(drawn(), tmp_path / "one.svg")
    text = (tmp_path / "one.svg").read_text(encoding="utf-8")
    assert "font-family: sans-serif" in text or "font: " in text
    assert "Geneva" not in text
    assert "<metadata>" not in text
