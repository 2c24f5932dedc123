"""Pictures: the same bytes for the same numbers, and nothing lost that can be seen."""

import re
from itertools import pairwise

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


def test_groups_that_say_nothing_are_left_out():
    mark, shift = '<path d="M 1 0"/>\n', '<g transform="scale(2)">\n'
    text = f"<svg>\n<g>\n{shift}<g>\n{mark}{mark}</g>\n</g>\n{mark}</g>\n</svg>\n"
    assert smaller(text) == f"<svg>\n{shift}{mark}{mark}</g>\n{mark}</svg>\n"
    assert smaller('<g id="a"/>\n<g>\n</g>\n') == '<g id="a"/>\n'


def test_one_font_is_named_and_nothing_about_the_program(tmp_path):
    save(drawn(), tmp_path / "one.svg")
    text = (tmp_path / "one.svg").read_text(encoding="utf-8")
    assert "font-family: sans-serif" in text or "font: " in text
    assert "Geneva" not in text
    assert "<metadata>" not in text


def test_a_style_that_is_repeated_is_written_once():
    one, two = "fill: #ffffff", "fill: none; stroke: #000000"
    marks = "".join(f'<path d="M {n} 0" style="{one}"/>\n' for n in range(3))
    sheet = '<style type="text/css">*{stroke-linecap: butt}</style>\n'
    assert smaller(f'{sheet}{marks}<path d="M 9 0" style="{two}"/>\n') == (
        '<style type="text/css">*{stroke-linecap: butt}\n.s0{fill: #ffffff}</style>\n'
        '<path d="M 0 0" class="s0"/>\n<path d="M 1 0" class="s0"/>\n<path d="M 2 0" class="s0"/>\n'
        f'<path d="M 9 0" style="{two}"/>\n'
    )


def test_marks_and_clips_have_short_names_that_are_referred_to(tmp_path):
    save(drawn(), tmp_path / "one.svg")
    text = (tmp_path / "one.svg").read_text(encoding="utf-8")
    names = re.findall(r' id="([mp][^"]*)"', text)
    marks = {name for name in names if re.fullmatch(r"[mp]\d{1,2}", name)}
    assert len(marks) > 1
    assert set(re.findall(r'href="#([^"]*)"', text)) <= marks
    assert set(re.findall(r"url\(#([^)]*)\)", text)) <= marks


def test_points_that_cannot_be_told_apart_are_left_out_and_the_ends_stay():
    points = [(n / 20, 3.0) for n in range(401)]
    line = " ".join(f"{x} {y}" for x, y in points)
    thin = re.search(r'd="M ([^\n]*)\n"', smaller(f'<path d="M {line}\n"/>'))[1].split()
    places = [float(x) for x in thin[::2]]
    assert (places[0], places[-1]) == (0, 20)
    assert 20 < len(places) < 40
    assert max(b - a for a, b in pairwise(places)) < 1
