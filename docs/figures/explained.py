"""Draws ``explained.png``: potencies that the package predicts, and the atoms that they come from.

``python docs/figures/explained.py`` from the repository's root; a minute on one core, no download.
"""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import numpy as np

from pyg_kernels.datasets import ChEMBLSulfonamides, scaffold_split
from pyg_kernels.molecules import MoleculeRegressor


def main() -> None:
    """Fits a network to measured potencies; draws the lowest, middle and highest prediction."""
    molecules = ChEMBLSulfonamides()
    smiles, potency = np.array(molecules.smiles), molecules.y.view(-1).numpy()
    split = scaffold_split(molecules.smiles)
    model = MoleculeRegressor("wl", epochs=15, hidden_channels=48, random_state=0)
    model.fit(smiles[split.train], potency[split.train])

    ranks = np.argsort(model.predict(smiles[split.test]))
    chosen = split.test.numpy()[ranks[[0, len(ranks) // 2, -1]]]
    found = model.explain(smiles[chosen], k=3)
    scale = max(np.abs(shares).max() for shares in found.atoms)
    figure, axes = plt.subplots(1, 3, figsize=(11.5, 3.4), facecolor="white")
    for i, panel in enumerate(axes):
        png = found.draw(i, scale=float(scale), size=(760, 520), file_format="png")
        panel.imshow(plt.imread(BytesIO(png)))
        panel.set_axis_off()
        measured = potency[chosen[i]]
        panel.set_title(f"predicted {found.output[i]:.2f}, measured {measured:.2f}", fontsize=11)
    figure.subplots_adjust(left=0, right=1, top=0.9, bottom=0, wspace=0.02)
    figure.savefig(Path(__file__).with_name("explained.png"), dpi=110)


if __name__ == "__main__":
    matplotlib.use("Agg")
    main()
