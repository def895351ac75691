"""The explainers that are compared, each as an algorithm of PyTorch Geometric."""

import copy
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.explain import (
    CaptumExplainer,
    DummyExplainer,
    Explainer,
    Explanation,
    GNNExplainer,
)
from torch_geometric.explain.algorithm import ExplainerAlgorithm

REGRESSION = {"mode": "regression", "task_level": "graph"}


@dataclass(frozen=True)
class Method:
    """A row of the table.

    Args:
        algorithm: Made of the number of steps of GNNExplainer, and of integrated gradients.
        node_mask (str): PyG's type of a mask: ``'object'`` one value an atom, ``'attributes'`` one
            for each of its features, which are summed.
        by_position (bool): Whether it calls the network by position.
    """

    algorithm: Callable[[int, int], ExplainerAlgorithm]
    node_mask: str = "object"
    by_position: bool = False


class ByPosition(nn.Module):
    """A network called with all of :func:`graph_arguments` by position, as Captum does.

    Args:
        net: ``net(x, edge_index, batch=..., edge_attr=...)``.
    """

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor, edge_attr: Tensor) -> Tensor:
        """The outputs of the network."""
        out: Tensor = self.net(x, edge_index, batch=batch, edge_attr=edge_attr)
        return out


def _walks(gnn_epochs: int, ig_steps: int) -> ExplainerAlgorithm:
    from pyg_kernels.explain import WalkExplainer

    return WalkExplainer(k=0)


def _integrated_gradients(gnn_epochs: int, ig_steps: int) -> ExplainerAlgorithm:
    return CaptumExplainer("IntegratedGradients", n_steps=ig_steps)


METHODS: Mapping[str, Method] = {
    "walks": Method(_walks),
    "gnn-explainer": Method(lambda gnn_epochs, ig_steps: GNNExplainer(epochs=gnn_epochs)),
    "integrated-gradients": Method(_integrated_gradients, node_mask="attributes", by_position=True),
    "random": Method(lambda gnn_epochs, ig_steps: DummyExplainer()),
}


@dataclass(frozen=True)
class Explained:
    """What a method says of a molecule.

    Args:
        nodes (Tensor): ``(N,)``, what each atom adds to the prediction; of methods that have no
            sign, how important it is. The atoms of an explanation are the largest.
        edges (Tensor): ``(E,)``, likewise.
        seconds (float): Of the clock.
    """

    nodes: Tensor
    edges: Tensor
    seconds: float


def graph_arguments(molecule: Data) -> dict[str, Tensor]:
    """What a network is called with after ``x`` and ``edge_index``, as :class:`ByPosition`."""
    batch = molecule.edge_index.new_zeros(molecule.num_nodes or 0)
    return {"batch": batch, "edge_attr": molecule.edge_attr}


def explainer_of(name: str, net: nn.Module, gnn_epochs: int = 100, ig_steps: int = 50) -> Explainer:
    """The explainer of a method for a network on graphs, of which it gets a copy.

    GNNExplainer leaves parameters in the layers, through which Captum's gradients do not pass.
    """
    method = METHODS[name]
    net = copy.deepcopy(net)
    return Explainer(
        model=ByPosition(net) if method.by_position else net,
        algorithm=method.algorithm(gnn_epochs, ig_steps),
        explanation_type="model",
        model_config=REGRESSION,
        node_mask_type=method.node_mask,
        edge_mask_type="object",
    )


def explain(explainer: Explainer, molecule: Data, seed: int) -> Explained:
    """What an explainer says of a molecule.

    Args:
        explainer: Of a network on the molecule's device.
        molecule: One graph.
        seed (int): Of methods that draw.
    """
    torch.manual_seed(seed)
    _finish(molecule)
    start = time.perf_counter()
    found: Explanation = explainer(molecule.x, molecule.edge_index, **graph_arguments(molecule))
    _finish(molecule)
    seconds = time.perf_counter() - start
    nodes, edges = found.node_mask.sum(dim=1).detach().cpu(), found.edge_mask.detach().cpu()
    attribution = found.get("contributions")
    if attribution is None:
        return Explained(nodes, edges, seconds)
    return Explained(attribution.nodes.cpu(), attribution.edges.cpu(), seconds)


def _finish(molecule: Data) -> None:
    if molecule.x.is_cuda:
        torch.cuda.synchronize(molecule.x.device)
