"""How good an explanation of a planted target is."""

import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.explain import DummyExplainer, Explainer, Explanation
from torch_geometric.explain.metric import fidelity

from benchmarks.harness.explanations.methods import graph_arguments

NUMBER = {"mode": "regression", "task_level": "graph"}
CLASSES = {"mode": "multiclass_classification", "task_level": "graph", "return_type": "raw"}


class NumberNet(nn.Module):
    """The predicted number in its own unit.

    Args:
        net: A network on graphs whose output is the standardised number.
        mean (float): Of the number.
        std (float): Of the number.

    Shapes:
        - input: those of `net`
        - output: (B, 1)
    """

    def __init__(self, net: nn.Module, mean: float, std: float) -> None:
        super().__init__()
        self.net = net
        self.mean, self.std = mean, std

    def forward(self, x: Tensor, edge_index: Tensor, *, edge_attr: Tensor, batch: Tensor) -> Tensor:
        return self.net(x, edge_index, edge_attr=edge_attr, batch=batch) * self.std + self.mean


class NearestNumber(nn.Module):
    """The scores of 0, 1, ..., K, the best one nearest to what is predicted.

    PyG defines fidelity for classes alone.

    Args:
        net: Gives the number.
        most (int): K.

    Shapes:
        - input: those of `net`
        - output: (B, K + 1)
    """

    def __init__(self, net: NumberNet, most: int) -> None:
        super().__init__()
        self.net = net
        self.most = most

    def forward(self, x: Tensor, edge_index: Tensor, *, edge_attr: Tensor, batch: Tensor) -> Tensor:
        number = self.net(x, edge_index, edge_attr=edge_attr, batch=batch)
        return -(number - torch.arange(self.most + 1).to(number)).square()


def selected_atoms(values: Tensor, number: int) -> Tensor:
    """``(N,)`` bool, True for the atoms with the largest values; of equals the first ones."""
    chosen = torch.zeros(len(values), dtype=torch.bool)
    chosen[values.argsort(descending=True, stable=True)[:number]] = True
    return chosen


def precision(selected: Tensor, evidence: Tensor) -> float:
    """The share of the selected atoms that belong to the evidence; both ``(N,)`` bool."""
    return evidence[selected].double().mean().item()


class Fidelity:
    """What becomes of a prediction without some atoms, and of these atoms alone.

    Atoms are removed as PyG removes them: their features become 0, and edges carry nothing. With
    the selected atoms alone, the edges between two of them are left. Without them it is those
    between two others; in PyG's fid+, which takes the complement of the mask, also those that
    join the two.

    Args:
        net: Predicts the number.
        most (int): The largest number.
    """

    def __init__(self, net: NumberNet, most: int) -> None:
        self.number = _explainer(net, NUMBER)
        self.nearest = _explainer(NearestNumber(net, most), CLASSES)

    def __call__(self, molecule: Data, selected: Tensor) -> dict[str, float]:
        """Measures the selected atoms of a molecule.

        Args:
            molecule: One graph, on the device of the network.
            selected: ``(N,)`` bool.

        Returns:
            ``fid+`` and ``fid-`` of PyG, 0 or 1 of one molecule: whether the nearest number changes
            without the atoms, and with them alone; ``change without`` and ``change alone``, the
            absolute changes of the predicted number.
        """
        nodes, others = (kept.to(molecule.x).unsqueeze(1) for kept in (selected, ~selected))
        edges, between_others = (kept[molecule.edge_index, 0].prod(0) for kept in (nodes, others))
        without, alone = fidelity(self.nearest, self._explanation(molecule, nodes, edges))
        whole = self._masked(molecule, None, None)
        return {
            "fid+": without,
            "fid-": alone,
            "change without": abs(self._masked(molecule, others, between_others) - whole),
            "change alone": abs(self._masked(molecule, nodes, edges) - whole),
        }

    def _explanation(self, molecule: Data, nodes: Tensor, edges: Tensor) -> Explanation:
        """Masks as PyG's explainers give them."""
        graph, arguments = (molecule.x, molecule.edge_index), graph_arguments(molecule)
        explanation = Explanation(
            x=molecule.x,
            edge_index=molecule.edge_index,
            node_mask=nodes,
            edge_mask=edges,
            target=self.nearest.get_target(self.nearest.get_prediction(*graph, **arguments)),
            **arguments,
        )
        explanation._model_args = list(arguments)
        return explanation

    def _masked(self, molecule: Data, nodes: Tensor | None, edges: Tensor | None) -> float:
        """The number that is predicted of a masked molecule."""
        graph, arguments = (molecule.x, molecule.edge_index), graph_arguments(molecule)
        return float(self.number.get_masked_prediction(*graph, nodes, edges, **arguments))


def _explainer(net: nn.Module, config: dict[str, str]) -> Explainer:
    """What applies masks to a network; it explains nothing."""
    return Explainer(
        model=net,
        algorithm=DummyExplainer(),
        explanation_type="model",
        model_config=config,
        node_mask_type="object",
        edge_mask_type="object",
    )
