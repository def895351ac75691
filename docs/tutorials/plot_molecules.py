"""
From a CSV to a calibrated, explained prediction
================================================

Measured potencies of 1,017 sulfonamides ship inside RDKit. We write 400 of them as a CSV, fit a
Gaussian process, check its intervals on molecules that it has not seen, and ask it why.
"""

# %%
# A table with SMILES
# -------------------
#
# Your table may have any columns. ``pyg-kernels example molecules.csv`` writes the whole table.

from io import BytesIO
from pathlib import Path
from tempfile import mkdtemp

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split

from pyg_kernels.datasets import ChEMBLSulfonamides
from pyg_kernels.molecules import MoleculeRegressor, load

molecules = ChEMBLSulfonamides()
table = pd.DataFrame({"smiles": molecules.smiles, "potency": molecules.y.view(-1)})
folder = Path(mkdtemp())
table.sample(400, random_state=0).to_csv(folder / "molecules.csv", index=False)

table = pd.read_csv(folder / "molecules.csv")
table.head()

# %%
# Fit
# ---
#
# ``wl-gp`` is a :term:`Gaussian process` with a :term:`min-max kernel` on counts of atoms'
# environments. ``gp``, the default, learns a sum of more kernels, is more accurate, and takes
# several times longer. A random split is easy: see :term:`scaffold split`.

train, test = train_test_split(table, test_size=0.3, random_state=0)
model = MoleculeRegressor("wl-gp", random_state=0).fit(train["smiles"], train["potency"])

mean, std = model.predict(test["smiles"], return_std=True)
rmse = np.sqrt(np.mean((mean - test["potency"]) ** 2))
print(f"test RMSE {rmse:.2f}; standard deviation of the measurements {test['potency'].std():.2f}")

# %%
# Is the uncertainty true?
# ------------------------
#
# Intervals are scaled on a validation part that the fit sets aside (:term:`conformal interval`).
# How often do they contain the measured value?

levels = np.array([0.3, 0.5, 0.7, 0.8, 0.9, 0.95])
held = []
for level in levels:
    low, high = model.predict_interval(test["smiles"], coverage=level)
    held.append(np.mean((low <= test["potency"]) & (test["potency"] <= high)))

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
left.errorbar(test["potency"], mean, yerr=std, fmt="o", markersize=3, linewidth=0.6)
left.axline((6.5, 6.5), slope=1, color="grey", linewidth=1)
left.set_xlabel("measured potency")
left.set_ylabel("predicted, with its standard deviation")
right.plot(levels, held, "o-")
right.axline((0, 0), slope=1, color="grey", linewidth=1)
right.set_xlabel("intervals of")
right.set_ylabel("contain")

# %%
# The intervals are scaled on a tenth of the training molecules, 28 here: with so few, the coverage
# of one test part may be off by ten points either way.

# %%
# Why?
# ----
#
# The prediction is a sum over patterns of atoms, so it can be divided exactly among the atoms. Red
# raises the potency and blue lowers it, relative to what the model says without any pattern.

chosen = test["smiles"].iloc[[mean.argmin(), mean.argmax()]].tolist()
found = model.explain(chosen)
scale = max(np.abs(shares).max() for shares in found.atoms)
figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
for i, panel in enumerate(axes):
    png = found.draw(i, scale=float(scale), size=(600, 480), file_format="png")
    panel.imshow(plt.imread(BytesIO(png)))
    panel.set_axis_off()
    panel.set_title(f"predicted {found.output[i]:.2f}")

# %%
# The shares and the constant add up to the prediction:

for shares, constant, output in zip(found.atoms, found.constant, found.output, strict=True):
    print(f"{shares.sum():+.4f} {constant:+.4f} = {output:.4f}")

# %%
# Keep it
# -------
#
# A model is saved as JSON and arrays with checksums; nothing is pickled.

model.save(folder / "model")
print(load(folder / "model").predict(chosen), "loaded")

# %%
# :doc:`/molecule_command` does the same without Python, for tables of any length.
# :doc:`/molecule_estimators` covers networks, ensembles, several targets and classes.
