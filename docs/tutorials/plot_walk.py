"""
One walk, three faces
=====================

A kernel over structures is a sum over walks. On a molecule, we compute the same numbers three
times: from an enumeration of all walks, from the kernel, and from a layer. On a sentence, we
compute them from the kernel and from a layer.
"""

# %%
# By hand: all walks
# ------------------
#
# The graph is that of acetamide; each atom has one of three colours. A :term:`reference walk` is a
# chain of three vectors. Each walk of three atoms adds the product of its inner products with the
# reference, times the :term:`decay` of two steps.

import matplotlib.pyplot as plt
import torch
from torch_geometric.data import Data

from pyg_kernels.kernels import RandomWalkKernel, StringKernel
from pyg_kernels.nn import RandomWalkConv
from pyg_kernels.sequence import RCNN

torch.manual_seed(0)
atoms = torch.eye(3, dtype=torch.float64)[[0, 0, 1, 2]]  # C C O N
bonds = torch.tensor([[0, 1, 1, 1, 2, 3], [1, 0, 2, 3, 1, 1]])  # both ways
order, decay, channels = 3, 0.5, 8

layer = RandomWalkConv(3, channels, order, decay).double()
weights = torch.stack([lin.weight.detach() for lin in layer.lins], dim=1)  # a reference a channel

neighbors = {v: bonds[1, bonds[0] == v].tolist() for v in range(4)}
walks = [(u, v, w) for u in range(4) for v in neighbors[u] for w in neighbors[v]]
by_hand = torch.zeros(channels, dtype=torch.float64)
for walk in walks:
    by_hand += decay**2 * (weights * atoms[list(walk)]).sum(-1).prod(dim=1)
print(f"{len(walks)} walks of {order} atoms, such as {walks[:3]}")

# %%
# As a kernel
# -----------
#
# :class:`~pyg_kernels.kernels.RandomWalkKernel` compares two graphs by all pairs of their walks. A
# reference walk is a graph as well: a chain with only one way through it.

chain = torch.tensor([[0, 1], [1, 2]])
references = [Data(x=w, edge_index=chain) for w in weights]
molecule = Data(x=atoms, edge_index=bonds)
kernel = RandomWalkKernel(order, decay, edge_feature=None)([molecule], references)[0]

# %%
# As a layer
# ----------
#
# The layer never lists a walk. Each :term:`state` is the sum over all walks that end at its node,
# and one step of message passing makes them longer by a node. Summed over the nodes, the states
# equal the kernel:

with torch.no_grad():
    states = layer(atoms, bonds)
layer_sum = states.sum(dim=0)
print("largest difference, kernel and enumeration:", (kernel - by_hand).abs().max().item())
print("largest difference, layer and kernel:      ", (layer_sum - kernel).abs().max().item())
assert torch.allclose(layer_sum, kernel, rtol=0, atol=1e-10)
assert torch.allclose(by_hand, kernel, rtol=0, atol=1e-10)

# %%
# The same on a sentence
# ----------------------
#
# A sentence is a path, and its walks are n-grams with gaps. Each word that an n-gram skips, up to
# the end of the text, costs a decay. The layer is :class:`~pyg_kernels.sequence.RCNN`, the kernel
# :class:`~pyg_kernels.kernels.StringKernel` (theorem 1 of Lei et al. 2017).

words = torch.randn(7, 3, dtype=torch.float64)
rcnn = RCNN(3, channels, order=2, decay=decay, normalize=False, act=None, bias=False).double()
phrases = list(torch.stack([lin.weight.detach() for lin in rcnn.cells[0].lins], dim=1))
with torch.no_grad():
    outputs, _ = rcnn(words)
string_kernel = StringKernel(2, decay)([words], phrases)[0]
print("largest difference on the sentence:", (outputs[-1] - string_kernel).abs().max().item())
assert torch.allclose(outputs[-1], string_kernel, rtol=0, atol=1e-10)

# %%
# All of them in one picture
# --------------------------

figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.8), layout="constrained")
left.plot(by_hand, layer_sum, "o", label="all walks by hand")
left.plot(kernel, layer_sum, "+", markersize=13, label="kernel")
left.set_title("a molecule")
right.plot(string_kernel, outputs[-1], "+", markersize=13, label="kernel")
right.set_title("a sentence")
for panel in (left, right):
    panel.axline((0, 0), slope=1, color="grey", linewidth=0.8)
    panel.set_xlabel("kernel with the reference of a channel")
    panel.set_ylabel("channel of the layer")
    panel.legend()

# %%
# So a layer that learns its weights learns its reference walks, and its output can be divided
# exactly among walks (:doc:`/explanations`). Tests check the same with gates, bonds and
# Weisfeiler-Lehman iterations. :doc:`/idea` has the formulas.
