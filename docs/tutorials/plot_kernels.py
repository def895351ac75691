"""
Exact kernels and Gaussian processes
====================================

From SMILES to a Gram matrix, then to predictions with error bars. No training loop, no epochs: the
weights of the kernels are those that make the measurements most likely.
"""

# %%
# A Gram matrix from SMILES
# -------------------------
#
# The data are fourteen alcohols, alkanes and amines, and their boiling points in °C.
# ``WLSubtreeKernel`` counts the environments of atoms. With ``compare="minmax"`` it is the
# :term:`min-max kernel` of the counts, which is 1 for equal molecules.

import matplotlib.pyplot as plt
import numpy as np

from pyg_kernels.kernels import KernelGP, LabelSequenceKernel, WLSubtreeKernel

boiling = {
    "CC": -89, "CCC": -42, "CCCC": 0, "CCCCC": 36, "CCCCCC": 69, "CCCCCCC": 98,
    "CO": 65, "CCO": 78, "CCCO": 97, "CCCCO": 118, "CCCCCO": 138,
    "CCN": 17, "CCCN": 49, "CCCCN": 78,
}  # fmt: skip
smiles, y = list(boiling), np.array(list(boiling.values()), dtype=float)

subtrees = WLSubtreeKernel(2, edge_label="edge_attr", compare="minmax")
gram = subtrees(smiles)

figure, axes = plt.subplots(figsize=(5.6, 4.6), layout="constrained")
image = axes.imshow(gram, cmap="viridis")
axes.set_xticks(range(len(smiles)), smiles, rotation=90)
axes.set_yticks(range(len(smiles)), smiles)
figure.colorbar(image, label="kernel")

# %%
# The matrix has no negative eigenvalue, up to rounding, which is what makes it a kernel:

print(f"smallest eigenvalue {np.linalg.eigvalsh(gram.numpy()).min():.1e}")

# %%
# A Gaussian process
# ------------------
#
# :class:`~pyg_kernels.kernels.KernelGP` takes one kernel or several. It chooses their weights and
# the noise by :term:`marginal likelihood`.

sequences = LabelSequenceKernel(4, edge_label="edge_attr", compare="minmax")
gp = KernelGP([subtrees, sequences]).fit(smiles, y)
print("weights", np.round(gp.weights_, 3), "noise", np.round(gp.noise_, 4))

# %%
# For new molecules, seen in part or not at all, it says how sure it is:

new = {"CCCCCCO": 157, "CCCCCN": 104, "CCCCCCCC": 126, "CC(C)O": 82, "c1ccccc1": 80}
mean, std = gp.predict(list(new), return_std=True)

figure, axes = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
places = np.arange(len(new))
axes.errorbar(places, mean, yerr=2 * std, fmt="o", capsize=4, label="predicted, two deviations")
axes.plot(places, list(new.values()), "x", color="black", markersize=8, label="measured")
axes.set_xticks(places, list(new))
axes.set_ylabel("boiling point in °C")
axes.legend()

# %%
# Benzene shares nothing with the fitted molecules: its error bar is the widest.

assert std.argmax() == list(new).index("c1ccccc1")

# %%
# In scikit-learn's ways
# ----------------------
#
# Kernels are transformers. ``fit`` remembers the molecules, and ``transform`` compares others with
# them. In a pipeline, each split of a cross-validation makes its own matrix.

from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import LeaveOneOut, cross_val_predict
from sklearn.pipeline import make_pipeline

gram_of = WLSubtreeKernel(2, edge_label="edge_attr", compare="minmax", output="gram")
ridge = make_pipeline(gram_of, KernelRidge(alpha=0.01, kernel="precomputed"))
left_out = cross_val_predict(ridge, smiles, y, cv=LeaveOneOut())
print(f"mean absolute error of a molecule left out: {np.abs(left_out - y).mean():.0f} °C")

# %%
# :doc:`/kernels` covers random-walk, shortest-path and string kernels, graphs of PyG and networkx,
# and large sets.
