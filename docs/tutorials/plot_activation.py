"""
A learned activation and its function
=====================================

``KernelActivation`` takes the place of ``ReLU``: each unit learns a function of its own, piecewise
linear with learned kinks. One unit with such a function can do what takes many units with a fixed
function.
"""

# %%
# A function of one projection
# ----------------------------
#
# The target is a wave along an unknown direction in four dimensions.

import matplotlib.pyplot as plt
import torch
from torch import nn

from pyg_kernels.nn import KernelActivation

torch.manual_seed(0)
direction = torch.tensor([0.6, -0.5, 0.5, 0.37])
x = torch.randn(600, 4)
y = torch.sin(2.5 * (x @ direction)).unsqueeze(1) + 0.05 * torch.randn(600, 1)
train, test = slice(0, 400), slice(400, 600)

# %%
# One unit with a learned function, beside 32 rectifiers
# ------------------------------------------------------
#
# The activation is a kernel expansion over ``num_centers`` centers. Here it begins as the identity
# (``init``) and has a learned line added (``affine``).

one = nn.Sequential(
    nn.Linear(4, 1, bias=False),
    KernelActivation(1, num_centers=24, init="identity", init_range=(-3, 3), affine=True),
)
with torch.no_grad():
    one[0].weight.copy_(torch.tensor([[0.5, -0.4, 0.3, 0.3]]))  # a rough guess of the direction
many = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 1))


def fit(net: nn.Module, steps: int = 500) -> list[float]:
    """Trains on all points at once; the test error after each step."""
    optimizer = torch.optim.Adam(net.parameters(), lr=0.05)
    errors = []
    for _ in range(steps):
        loss = nn.functional.mse_loss(net(x[train]), y[train])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            errors.append(nn.functional.mse_loss(net(x[test]), y[test]).sqrt().item())
    return errors


errors = {"one learned unit": fit(one), "32 rectifiers": fit(many)}
for name, values in errors.items():
    print(f"{name}: test RMSE {values[-1]:.3f}")

# %%
# The function
# ------------
#
# ``plot`` draws the learned function. A new unit would show the function at the start.

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
for name, values in errors.items():
    left.semilogy(values, label=name)
left.set_xlabel("step")
left.set_ylabel("test RMSE")
left.legend()
one[1].plot(ax=right)
right.set_title("the function of the unit")
right.set_xlabel("input")

# %%
# The direction is found as well, up to its length, which the function makes up for:

found = one[0].weight.detach().flatten()
print("cosine with the true direction:", f"{torch.cosine_similarity(found, direction, dim=0):.3f}")

# %%
# In other networks
# -----------------
#
# You can use it wherever an activation is taken: as ``act=KernelActivation(64)`` in PyG's models,
# with ``dim=1`` after a convolution. :class:`~pyg_kernels.sequence.KBRN` is a recurrent network of
# such units. When it helps, and when not: :doc:`/activations`.
