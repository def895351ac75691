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

from benchmarks.harness.explanations.setting import Compared

REGRESSION = {"mode": "regression", "task_level": "graph"}


@dataclass(frozen=True)
class Method:
    """A row of the table.

    Args:
        algorithm: Made of what the command line says.
        node_mask (str): PyG's type of a mask: ``'object'`` one value an atom, ``'attributes'`` one
            for each of its features, which are summed.
    """

    algorithm: Callable[[Compared], ExplainerAlgorithm]
    node_mask: str = "object"


def _walks(compared: Compared) -> ExplainerAlgorithm:
    from pyg_kernels.explain import WalkExplainer

    return WalkExplainer(k=0)


def _integrated_gradients(compared: Compared) -> ExplainerAlgorithm:
    return CaptumExplainer("IntegratedGradients", n_steps=compared.steps)


METHODS: Mapping[str, Method] = {
    "walks": Method(_walks),
    "gnn-explainer": Method(lambda compared: GNNExplainer(epochs=compared.gnn_epochs)),
    "integrated-gradients": Method(_integrated_gradients, node_mask="attributes"),
    "random": Method(lambda compared: DummyExplainer()),
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
    """What a network is called with after ``x`` and ``edge_index``, in its order.

    Captum passes arguments on by position, hence ``batch`` of a single molecule.
    """
    batch = molecule.edge_index.new_zeros(molecule.num_nodes or 0)
    return {"batch": batch, "edge_attr": molecule.edge_attr}


def explainer_of(name: str, net: nn.Module, compared: Compared) -> Explainer:
    """The explainer of a method for a network on graphs, of which it gets a copy.

    GNNExplainer leaves parameters in the layers, through which Captum's gradients do not pass.
    """
    method = METHODS[name]
    return Explainer(
        model=copy.deepcopy(net),
        algorithm=method.algorithm(compared),
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
    account = found.get("contributions")
    if account is None:
        return Explained(nodes, edges, seconds)
    return Explained(account.nodes.cpu(), account.edges.cpu(), seconds)


def _finish(molecule: Data) -> None:
    if molecule.x.is_cuda:
        torch.cuda.synchronize(molecule.x.device)
