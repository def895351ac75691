"""Pictures of attributions: which parts have which colour, and what cannot be drawn."""

import re
from importlib.util import find_spec
from typing import Any
from xml.etree import ElementTree

import pytest
import torch

pytest.importorskip("matplotlib", reason="texts are drawn with the extra 'bench'")

from pyg_kernels.explain import draw_molecule, draw_text, text_html
from pyg_kernels.explain.pictures import GROUND, NEGATIVE, POSITIVE

ACETAMIDE = "CC(=O)N"
BONDS = torch.tensor([[0, 1, 1, 2, 1, 3], [1, 0, 2, 1, 3, 1]])
TOKENS = ("not", "a", "bad", "<film>", "$5", "$6")
VALUES = (-1.0, 0.0, 0.25, 2.0, -0.5, 0.125)
BOND = r"<path class='bond-(\d+) [^>]*style='fill:#([0-9A-F]{6})"
ATOM = r"<ellipse[^>]*class='atom-(\d+)'[^>]*style='[^']*fill:#([0-9A-F]{6})"


with_rdkit = pytest.mark.skipif(not find_spec("rdkit"), reason="drawn with the extra 'mol'")


def fills(pattern: str, svg: bytes) -> dict[int, bytes]:
    """The red, green and blue values behind bonds or atoms, by their numbers."""
    found = re.findall(pattern, svg.decode())
    return {int(number): bytes.fromhex(fill) for number, fill in found}


@with_rdkit
def test_atoms_have_the_colors_of_their_signs() -> None:
    """A common scale makes pictures comparable; by default it is the largest value."""
    found = fills(ATOM, draw_molecule(ACETAMIDE, torch.tensor([2.0, 0.0, -1.0, 0.01])))
    assert set(found) == {0, 2}  # none at 0, nor where too faint to see
    (red, _, blue), (other_red, _, other_blue) = found[0], found[2]
    assert red > blue and other_blue > other_red
    one = [1.0, 0, 0, 0]
    strong, weak = (draw_molecule(ACETAMIDE, one, scale=scale) for scale in (1.0, 4.0))
    assert fills(ATOM, strong)[0][1] < fills(ATOM, weak)[0][1]
    assert draw_molecule(ACETAMIDE, one) == strong == draw_molecule(ACETAMIDE, one, scale=0.2)


@with_rdkit
def test_a_bond_has_the_sum_of_its_two_edges() -> None:
    nothing = torch.zeros(4)
    edges = torch.tensor([1.0, -1.0, 0.5, 0.25, 0.0, -2.0])
    drawn = draw_molecule(ACETAMIDE, nothing, edges, BONDS)
    found = fills(BOND, drawn)
    assert set(found) == {1, 2}  # those of the bond between the first two atoms cancel
    (red, _, blue), (other_red, _, other_blue) = found[1], found[2]
    assert red > blue and other_blue > other_red
    assert drawn == draw_molecule(ACETAMIDE, nothing, edges[[0, 1, 3, 2, 5, 4]], BONDS)
    assert drawn != draw_molecule(ACETAMIDE, nothing)


@with_rdkit
def test_molecules_and_formats() -> None:
    from rdkit import Chem

    molecule = Chem.MolFromSmiles(ACETAMIDE)
    values = [0.0, 1.0, -1.0, 0.5]
    assert draw_molecule(molecule, values) == draw_molecule(ACETAMIDE, values)
    assert draw_molecule(ACETAMIDE, values, file_format="png").startswith(b"\x89PNG")
    assert b"a line" not in draw_molecule(ACETAMIDE, values)
    assert draw_molecule("C", [0.0], legend="one") != draw_molecule("C", [0.0])
    assert b"width='100px' height='80px'" in draw_molecule("C", [1.0], size=(100, 80))
    assert molecule.GetNumAtoms() == 4


ATOMS, NAN, ONE = [0.0] * 4, float("nan"), torch.tensor
NO_MOLECULES: list[tuple[type[Exception], str, tuple[Any, ...], dict[str, Any]]] = [
    (ValueError, "mol='no SMILES'", ("no SMILES", [0.0]), {}),
    (ValueError, r"nodes has the shape \(3,\): expected \(4,\)", (ACETAMIDE, [0.0] * 3), {}),
    (ValueError, r"nodes has the shape \(4, 1\)", (ACETAMIDE, torch.zeros(4, 1)), {}),
    (ValueError, "nodes has values that are not finite", (ACETAMIDE, [0.0, NAN, 0.0, 0.0]), {}),
    (ValueError, "edges and edge_index go together", (ACETAMIDE, ATOMS, [0.0] * 6), {}),
    (ValueError, "edges and edge_index go together", (ACETAMIDE, ATOMS, None, BONDS), {}),
    (ValueError, r"edges has the shape \(5,\)", (ACETAMIDE, ATOMS, [0.0] * 5, BONDS), {}),
    *[
        (ValueError, f"atoms {u} and {v} have no", (ACETAMIDE, ATOMS, [0.0], ONE([[u], [v]])), {})
        for u, v in [(0, 2), (0, 9), (1, 1)]
    ],
    (ValueError, "scale=0.0", ("C", [0.0]), {"scale": 0.0}),
    (ValueError, "file_format='gif'", ("C", [0.0]), {"file_format": "gif"}),
    (ValueError, r"size=\(0, 0\): expected width and height", ("C", [0.0]), {"size": (0, 0)}),
    (ValueError, "size=100", ("C", [0.0]), {"size": 100}),
    (TypeError, "mol is a NoneType: expected an RDKit molecule or a SMILES", (None, [0.0]), {}),
    (TypeError, "nodes: expected numbers", ("C", ["red"]), {}),
    (TypeError, "nodes has dtype torch.complex64", ("C", torch.ones(1) * 1j), {}),
    (TypeError, "edge_index is a list", ("CC", [0.0] * 2, [0.0], [[0], [1]]), {}),
    (TypeError, "edge_index has dtype", ("CC", [0.0] * 2, [0.0], torch.zeros(2, 1)), {}),
    (ValueError, r"shape \(2,\): .*\(2, E\)", ("CC", [0.0] * 2, [0.0], ONE([0, 1])), {}),
    (ValueError, r"shape \(1, 2\)", ("CC", [0.0] * 2, [0.0], ONE([[1, 1]])), {}),
]


@with_rdkit
@pytest.mark.parametrize(("error", "message", "given", "options"), NO_MOLECULES)
def test_what_does_not_fit_a_molecule(error: Any, message: str, given: Any, options: Any) -> None:
    with pytest.raises(error, match=message):
        draw_molecule(*given, **options)


def test_html_colors_tokens_and_lists_ngrams() -> None:
    """Colours go from blue over white to red, as far as a value goes towards the largest."""
    html = text_html(TOKENS, VALUES, [((0, 2), -1.5), ((3,), 0.5), ((0, 1, 3), 0.25)])
    page = ElementTree.fromstring(html)
    spans = {span.text: span.get("style", "") for span in page.iter("span")}
    assert tuple(spans) == TOKENS
    for style, value in zip(spans.values(), VALUES, strict=True):
        color, share = POSITIVE if value > 0 else NEGATIVE, GROUND * abs(value) / max(VALUES)
        expected = [255 * (1 - share * (1 - channel)) for channel in color]
        assert list(map(int, re.findall(r"\d+", style)[:3])) == pytest.approx(expected, abs=1)
    cells = ["-1.5", "not … bad", "+0.5", "<film>", "+0.25", "not a … <film>"]
    assert [cell.text for cell in page.iter("td")] == cells
    assert "<table>" not in text_html(TOKENS, VALUES)
    assert not "".join(ElementTree.fromstring(text_html([], [])).itertext()).strip()


def test_figure_has_values_ngrams_and_gates(tmp_path) -> None:
    gates = torch.tensor([[0.0, 0.5, 1.0]]).expand(6, 3) * torch.arange(1, 7).view(6, 1) / 6
    figure = draw_text(TOKENS, VALUES, [((0, 2), -1.5), ((3, 4), 0.5)], gates, title="costs $5")
    tokens, ngrams, gate = figure.axes
    assert [bar.get_height() for bar in tokens.patches] == list(VALUES)
    for place, color in ((3, POSITIVE), (0, NEGATIVE)):
        assert tokens.patches[place].get_facecolor()[:3] == pytest.approx(color)
    assert [label.get_text() for label in tokens.get_xticklabels()] == list(TOKENS)
    assert [bar.get_width() for bar in ngrams.patches] == [-1.5, 0.5]
    assert [label.get_text() for label in ngrams.get_yticklabels()] == ["not … bad", "<film> $5"]
    (line,) = gate.get_lines()
    assert list(line.get_ydata()) == pytest.approx([k / 12 for k in range(1, 7)])
    figure.savefig(tmp_path / "text.png")
    assert (tmp_path / "text.png").read_bytes().startswith(b"\x89PNG")
    assert len(draw_text(TOKENS, VALUES).axes) == 1
    _, gate = draw_text(TOKENS, VALUES, gates=torch.full((6,), 0.5)).axes
    assert gate.get_legend() is None


NO_TEXTS: list[tuple[type[Exception], str, tuple[Any, ...]]] = [
    (ValueError, r"values has the shape \(3,\): expected \(6,\)", (TOKENS, VALUES[:3])),
    (ValueError, "values has values that are not finite", (TOKENS, [float("inf")] * 6)),
    (ValueError, "position 6 is outside a text of 6 tokens", (TOKENS, VALUES, [((0, 6), 1.0)])),
    (ValueError, "position -1 is outside", (TOKENS, VALUES, [((-1,), 1.0)])),
    (ValueError, "ngrams has values that are not finite", (TOKENS, VALUES, [((0,), NAN)])),
    (TypeError, "values: expected numbers", (TOKENS, ["good"] * 6)),
    (TypeError, r"tokens\[1\] is a int: expected a string", (("a", 2), (0.0, 1.0))),
    (TypeError, "position 0.0 is no whole number", (TOKENS, VALUES, [((0.0,), 1.0)])),
    (TypeError, "ngrams: expected pairs of positions and value", (TOKENS, VALUES, [(0, 1.0)])),
]
GATES: list[tuple[str, Any]] = [
    (r"gates has the shape \(5,\)", torch.zeros(5)),
    (r"gates has the shape \(6, 0\)", torch.zeros(6, 0)),
    *((r"gates has values outside \[0, 1\]", [0.5] * 5 + [g]) for g in (NAN, -0.1, 3.0)),
]


@pytest.mark.parametrize(("error", "message", "arguments"), NO_TEXTS)
def test_what_does_not_fit_a_text(error: Any, message: str, arguments: Any) -> None:
    for draw in (text_html, draw_text):
        with pytest.raises(error, match=message):
            draw(*arguments)


def test_what_does_not_fit_a_figure() -> None:
    with pytest.raises(ValueError, match="tokens is empty"):
        draw_text((), ())
    for message, gates in GATES:
        with pytest.raises(ValueError, match=message):
            draw_text(TOKENS, VALUES, gates=gates)
