"""
A layer in your PyG model
=========================

A kernel layer can take the place of ``GCNConv`` in a network of PyTorch Geometric. We build such a
network, train it on graphs that only walks tell apart, and test it on new graphs.
"""

# %%
# Graphs that only walks tell apart
# ---------------------------------
#
# Each graph is a ring of 12 nodes in two colours, six of each. In class 0 the colours alternate, in
# class 1 they come in two blocks. Counts of colours say nothing about the class; pairs of
# neighbours say everything. In each graph, two random nodes swap their colours.

import matplotlib.pyplot as plt
import torch
from torch.nn import BatchNorm1d, Linear
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import global_add_pool

from pyg_kernels.nn import GraphKernelConv

torch.manual_seed(0)
ring = torch.arange(12)
edge_index = torch.stack([torch.cat([ring, ring.roll(-1)]), torch.cat([ring.roll(-1), ring])])


def make_graph(label: int) -> Data:
    """A ring whose colours alternate (0) or come in blocks (1), but for one swap."""
    color = ring % 2 if label == 0 else ring // 6
    swapped = torch.randperm(12)[:2]
    color[swapped] = color[swapped.flip(0)]
    x = torch.nn.functional.one_hot(color, 2).float()
    return Data(x=x, edge_index=edge_index, y=torch.tensor([label]))


graphs = [make_graph(i % 2) for i in range(160)]
train, test = graphs[:120], graphs[120:]

# %%
# The network
# -----------
#
# :class:`~pyg_kernels.nn.GraphKernelConv` takes ``(in_channels, out_channels)`` as PyG's layers do.
# Use ``-1`` for a size that the first batch sets, and add an ``edge_dim`` where edges (or bonds)
# have features. The activation is inside the layer, so no ``relu`` follows. Sums over walks grow
# with degrees, so each layer gets a norm.


class Net(torch.nn.Module):
    """Two kernel layers, the sum over nodes, and a linear map."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = GraphKernelConv(-1, 16, norm=BatchNorm1d(16))
        self.conv2 = GraphKernelConv(16, 16, norm=BatchNorm1d(16))
        self.head = Linear(16, 2)

    def forward(self, data: Data) -> torch.Tensor:
        h = self.conv1(data.x, data.edge_index)
        h = self.conv2(h, data.edge_index)
        return self.head(global_add_pool(h, data.batch) / 12)


net = Net()
net(next(iter(DataLoader(train, batch_size=8))))  # the sizes are known from here on
print(net)

# %%
# Training is PyTorch's
# ---------------------

optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
losses = []
for _ in range(15):
    for data in DataLoader(train, batch_size=24, shuffle=True):
        loss = torch.nn.functional.cross_entropy(net(data), data.y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())

figure, axes = plt.subplots(figsize=(6, 2.6), layout="constrained")
axes.semilogy(losses)
axes.set_xlabel("batch")
axes.set_ylabel("training loss")

# %%
# All test graphs, in one batch:

net.eval()
batch = next(iter(DataLoader(test, batch_size=len(test))))
with torch.no_grad():
    accuracy = (net(batch).argmax(1) == batch.y).float().mean()
print(f"accuracy on new graphs: {accuracy:.2f}")

# %%
# What next
# ---------
#
# ``gated=True`` weighs each step of a walk by a learned gate. ``order=3`` compares walks of three
# nodes. :class:`~pyg_kernels.nn.WLKernelNet` is a whole network. :doc:`/choose` says which to take.
# :doc:`/from_pyg` shows attention, sparse adjacencies, heterogeneous graphs and explainers side by
# side with PyG's layers.
