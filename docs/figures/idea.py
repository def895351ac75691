"""Draws ``idea.svg``: one walk on a molecule, the same walk on a sentence, one recurrence.

``python docs/figures/idea.py`` from the repository's root; needs the extras ``mol`` and ``bench``.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from rdkit import Chem
from rdkit.Chem import rdDepictor

CARD, INK, PALE = "#fcfcf9", "#22262b", "#9aa0a6"
STEPS = ("#fee0c2", "#fdae6b", "#f58634")  # first, second and third node of a walk
HALO = "#f3ede4"
SMILES, WALK = "CC(=O)Nc1ccc(O)cc1", (3, 4, 5)
SENTENCE, NGRAM = ["the", "plot", "is", "thin", "but", "very", "funny"], (1, 3, 6)
RECURRENCE = (
    r"$c_1[v] = W^{(1)} f_v$"
    r"$\qquad c_j[v] = \sum_{u \to v}\ \lambda_{uv}\ c_{j-1}[u] \odot W^{(j)} f_v$"
    r"$\qquad \mathrm{output} = \sum_v c_n[v]$"
)


def draw_molecule(axes: Axes) -> None:
    """Draws the bonds, the atoms and one walk of three atoms."""
    mol = Chem.MolFromSmiles(SMILES)
    rdDepictor.Compute2DCoords(mol, canonOrient=True)
    points = mol.GetConformer().GetPositions()[:, :2]
    for bond in mol.GetBonds():
        ends = points[[bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()]]
        axes.plot(*ends.T, color=PALE, linewidth=2.2, zorder=1)
    axes.plot(*points[list(WALK)].T, color=HALO, linewidth=22, solid_capstyle="round", zorder=0)
    colors = dict(zip(WALK, STEPS, strict=True))
    for atom in mol.GetAtoms():
        i = atom.GetIdx()
        axes.scatter(
            *points[i], s=330, color=colors.get(i, CARD), edgecolor=PALE, linewidth=1.2, zorder=2
        )
        axes.text(*points[i], atom.GetSymbol(), color=INK, ha="center", va="center", fontsize=11)
    for u, v in pairwise(WALK):
        arrow(axes, points[u], points[v], 0.0)
    axes.set_title("a molecule is a graph", color=INK, fontsize=12)
    axes.set_aspect("equal")
    axes.margins(0.12)


def draw_sentence(axes: Axes) -> None:
    """Draws the words on a line and one walk, with gaps, over three of them."""
    axes.plot([0, len(SENTENCE) - 1], [0, 0], color=PALE, linewidth=2.2, zorder=1)
    colors = dict(zip(NGRAM, STEPS, strict=True))
    for i, word in enumerate(SENTENCE):
        axes.text(
            i,
            0,
            word,
            color=INK,
            ha="center",
            va="center",
            fontsize=12,
            bbox={"boxstyle": "round,pad=0.45", "fc": colors.get(i, CARD), "ec": PALE, "lw": 1.2},
        )
    for u, v in pairwise(NGRAM):
        arrow(axes, (u, 0.28), (v, 0.28), -0.35)
        skipped = v - u - 1
        axes.text(
            (u + v) / 2,
            1.15 if skipped == 1 else 1.4,
            rf"$\lambda^{skipped}$: {skipped} word{'s' if skipped > 1 else ''} skipped",
            color=INK,
            ha="center",
            fontsize=10,
        )
    axes.set_title("a sentence is a path", color=INK, fontsize=12)
    axes.set_xlim(-0.6, len(SENTENCE) - 0.4)
    axes.set_ylim(-1.2, 2.0)


def arrow(axes: Axes, start: object, end: object, bend: float) -> None:
    """Draws one step of a walk."""
    axes.annotate(
        "",
        xy=end,  # type: ignore[arg-type]
        xytext=start,  # type: ignore[arg-type]
        zorder=3,
        arrowprops={
            "arrowstyle": "-|>",
            "color": INK,
            "lw": 1.8,
            "shrinkA": 11 if bend == 0 else 3,
            "shrinkB": 11 if bend == 0 else 3,
            "connectionstyle": f"arc3,rad={bend}",
        },
    )


def main() -> None:
    """Writes the picture beside this file."""
    matplotlib.rcParams["svg.hashsalt"] = "idea"  # the same drawing gives the same file
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(11.5, 3.9), width_ratios=(4, 6), facecolor=CARD
    )
    draw_molecule(left)
    draw_sentence(right)
    for axes in (left, right):
        axes.set_axis_off()
    figure.subplots_adjust(left=0.01, right=0.99, top=0.9, bottom=0.26, wspace=0.02)
    figure.text(0.5, 0.145, RECURRENCE, color=INK, ha="center", fontsize=14)
    figure.text(
        0.5,
        0.025,
        "One recurrence adds up all walks of n nodes. The rows of $W$ are learned reference walks, "
        "one a channel: that is a layer.",
        color=INK,
        ha="center",
        fontsize=10.5,
    )
    target = Path(__file__).with_name("idea.svg")
    figure.savefig(target, facecolor=CARD, metadata={"Date": None})
    plt.close(figure)


if __name__ == "__main__":
    matplotlib.use("Agg")
    main()
