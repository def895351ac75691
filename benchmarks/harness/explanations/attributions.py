"""Exact attributions of predictions, in the target's own units."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from benchmarks.harness.errors import InputError
from benchmarks.harness.explanations.networks import graph_network
from benchmarks.harness.molecules.learner import MoleculeLearner
from benchmarks.harness.molecules.networks import OnBatch
from benchmarks.harness.molecules.regressor import MoleculeRegressor


@dataclass(frozen=True)
class Attribution:
    """What adds up to a prediction.

    Args:
        smiles (str): The molecule.
        nodes (Tensor): ``(N,)``, of each atom.
        edges (Tensor): ``(E,)``, of each directed bond; another attribution of the same prediction.
        edge_index (Tensor): ``(2, E)``.
        walks: The best walks, as pairs of atoms and value.
        offset (float): What no atom has a share of, the mean of the training part included.
        prediction (float): The sum of the atoms and the offset.
        measured (float): The target.
        gap (float): How far that sum is from what the network predicts.
    """

    smiles: str
    nodes: Tensor
    edges: Tensor
    edge_index: Tensor
    walks: Sequence[tuple[Sequence[int], float]]
    offset: float
    prediction: float
    measured: float
    gap: float


class Attributor:
    """Attributions of a network's predictions of its first target, in double precision.

    Args:
        learner: The network.
        best (int): Walks of each attribution.
    """

    def __init__(self, learner: MoleculeLearner, best: int) -> None:
        wrapped = learner.net
        self.net: Any = copy.deepcopy(graph_network(learner)).cpu().double().eval()
        self.bonds = not isinstance(wrapped, OnBatch) or wrapped.bond_features
        self.best = best
        self.mean, self.std = scale_of(learner)

    def __call__(self, molecule: Data) -> Attribution:
        """The attribution of one molecule.

        Raises:
            InputError: If the network is no sum over walks; the message names what is not.
        """
        from pyg_kernels.explain import model_contributions

        bonds = {"edge_attr": molecule.edge_attr.double()} if self.bonds else {}
        x, edge_index = molecule.x.double(), molecule.edge_index
        try:
            found: Any = model_contributions(self.net, x, edge_index, k=self.best, **bonds)
        except ValueError as error:
            raise InputError(f"no attribution for this network: {error}") from error
        with torch.no_grad():
            output = self.net(x, edge_index, **bonds)[0, 0].item()
        total, remainder = found.nodes.sum().item(), found.remainder.item()
        return Attribution(
            smiles=molecule.smiles,
            nodes=found.nodes * self.std,
            edges=found.edges * self.std,
            edge_index=edge_index,
            walks=[(atoms, float(value) * self.std) for atoms, value in found.walks],
            offset=remainder * self.std + self.mean,
            prediction=(total + remainder) * self.std + self.mean,
            measured=float(molecule.y[0, 0]),
            gap=abs(total + remainder - output) * self.std,
        )


def scale_of(learner: MoleculeLearner) -> tuple[float, float]:
    """What a first output is added to and multiplied by: mean and standard deviation of the target.

    Of a class, whose attribution is that of its log-odds, those of the training part and 1.
    """
    if isinstance(learner, MoleculeRegressor):
        return learner.scale.mean[0], learner.scale.std[0]
    return learner.scale.log_odds[0], 1.0
