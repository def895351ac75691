"""The compared explainers, all in PyTorch Geometric's interface, and measures of their quality; and
a text classifier with exact attributions of its scores: tokens, n-grams and gates.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

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
from torch_geometric.explain.metric import fidelity

from benchmarks.harness.devices import now
from benchmarks.harness.errors import InputError
from benchmarks.harness.learner import OptimizerConfig
from benchmarks.harness.study import Record
from benchmarks.harness.text.data import TextData
from benchmarks.harness.text.options import TextModels
from benchmarks.harness.text.task import TextClassifier, TextTask, text_model_configs
from benchmarks.harness.training import LAST, TrainingConfig, train
from pyg_kernels.datasets.text import TextBatch, Vocabulary, tokenize
from pyg_kernels.explain import TextNet, WalkExplainer
from pyg_kernels.explain.ngrams import cell_of, ngram_sum
from pyg_kernels.explain.text_net import text_contributions

MOST_GAP = 1e-6  # of a score in double precision; relative to a score above 1
OPTIMIZER = OptimizerConfig(learning_rate=0.003)
TRAINING = TrainingConfig(
    epochs=12, batch_size=50, patience=10, clip=5.0, optimizer=OPTIMIZER, precision="32-true"
)
LENGTHS = range(6, 21)  # in words, of test texts that are shown if no text is given
BEST_NGRAMS = 8
NUMBER = {"mode": "regression", "task_level": "graph"}
CLASSES = {"mode": "multiclass_classification", "task_level": "graph", "return_type": "raw"}


class NumberNet(nn.Module):
    """The predicted number in its own unit, from a `net` that predicts it standardised.

    Captum passes all of :func:`graph_arguments` by position.
    """

    def __init__(self, net: nn.Module, mean: float = 0.0, std: float = 1.0) -> None:
        super().__init__()
        self.net = net
        self.mean, self.std = mean, std

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor, edge_attr: Tensor) -> Tensor:
        """The number of each of B graphs, ``(B, 1)``."""
        return self.net(x, edge_index, batch=batch, edge_attr=edge_attr) * self.std + self.mean


class NearestNumber(NumberNet):
    """The scores of 0, 1, ..., `most`; the number nearest to the prediction scores best.

    PyG defines fidelity for classes alone.
    """

    def __init__(self, net: NumberNet, most: int) -> None:
        super().__init__(net.net, net.mean, net.std)
        self.most = most

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor, edge_attr: Tensor) -> Tensor:
        """The scores, ``(B, most + 1)``."""
        number = super().forward(x, edge_index, batch, edge_attr)
        return -(number - torch.arange(self.most + 1).to(number)).square()


def graph_arguments(molecule: Data) -> dict[str, Tensor]:
    """What a network is called with after ``x`` and ``edge_index``."""
    batch = molecule.edge_index.new_zeros(molecule.num_nodes or 0)
    return {"batch": batch, "edge_attr": molecule.edge_attr}


def explainer_of(method: str, net: nn.Module) -> Explainer:
    """The explainer of a method for a network on graphs; it gets a copy of the network.

    GNNExplainer leaves parameters in the layers, through which Captum's gradients do not pass.
    """
    net = copy.deepcopy(net)
    if method == "integrated-gradients":  # a value for each feature of an atom, to be summed
        captum = CaptumExplainer("IntegratedGradients")
        return _explainer(NumberNet(net), captum, NUMBER, "attributes")
    algorithms: dict[str, ExplainerAlgorithm] = {
        "walks": WalkExplainer(k=0),
        "gnn-explainer": GNNExplainer(),
        "random": DummyExplainer(),
    }
    return _explainer(net, algorithms[method], NUMBER)


def explain(explainer: Explainer, molecule: Data, seed: int) -> tuple[Tensor, float]:
    """A method's value for each atom, ``(N,)``, and the seconds that it took. Values are what atoms
    add to the prediction or, for a method without signs, how important they are.
    """
    torch.manual_seed(seed)
    start = now(molecule.x.device)
    found: Explanation = explainer(molecule.x, molecule.edge_index, **graph_arguments(molecule))
    seconds = now(molecule.x.device) - start
    attribution = found.get("contributions")
    nodes = found.node_mask.sum(dim=1) if attribution is None else attribution.nodes
    return nodes.detach().cpu(), seconds


def selected_atoms(values: Tensor, number: int) -> Tensor:
    """``(N,)`` bool, True for the atoms with the largest values; of equal ones, the first."""
    order = values.argsort(descending=True, stable=True)
    return torch.isin(torch.arange(len(values)), order[:number])


def fidelities(net: NumberNet, most: int, molecule: Data, selected: Tensor) -> Record:
    """PyG's ``fid+`` and ``fid-`` of selected atoms, ``(N,)`` bool, and the number's changes.

    ``fid+`` is whether the nearest number from 0 to `most` changes without these atoms, ``fid-``
    whether it changes with them alone. Changes of the predicted number itself are absolute. Atoms
    are removed as in PyG: their features become 0, and their edges carry nothing. With the selected
    atoms alone, the edges between two of them stay. Without them, the edges between two others
    stay; in PyG's fid+, which takes the complement of the mask, those that join the two stay too.
    """
    number = _explainer(net, DummyExplainer(), NUMBER)
    nearest = _explainer(NearestNumber(net, most), DummyExplainer(), CLASSES)
    graph, arguments = (molecule.x, molecule.edge_index), graph_arguments(molecule)
    nodes, others = (kept.to(molecule.x).unsqueeze(1) for kept in (selected, ~selected))
    edges, between_others = (kept[molecule.edge_index, 0].prod(0) for kept in (nodes, others))
    explanation = nearest(*graph, **arguments)
    explanation.node_mask, explanation.edge_mask = nodes, edges
    without, alone = fidelity(nearest, explanation)
    masks = ((None, None), (others, between_others), (nodes, edges))
    whole, rest, only = (
        float(number.get_masked_prediction(*graph, *mask, **arguments)) for mask in masks
    )
    changes = {"change_without": abs(rest - whole), "change_alone": abs(only - whole)}
    return {"fid+": without, "fid-": alone, **changes}


def _explainer(
    net: nn.Module, algorithm: ExplainerAlgorithm, config: dict[str, str], nodes: str = "object"
) -> Explainer:
    masks = {"node_mask_type": nodes, "edge_mask_type": "object"}
    return Explainer(net, algorithm, explanation_type="model", model_config=config, **masks)


@dataclass(frozen=True)
class Sentence:
    """The parts that add up to the score of a text."""

    words: Sequence[str]  # the T words
    tokens: Tensor  # (T,), the contribution of each word
    ngrams: Sequence[tuple[Sequence[int], float]]  # positions and value of each of the best
    gates: Tensor  # (T, H), the decay at each word: how much is kept of earlier words
    score: float  # the sum of the words' contributions and of a constant
    gap: float  # how far that sum is from what the classifier computes
    title: str  # which score this is, and the most probable class

    def record(self) -> Record:
        """Its entry in ``metrics.json``."""
        ngrams = [[" ".join(self.words[i] for i in places), x] for places, x in self.ngrams]
        return {
            "text": " ".join(self.words),
            "title": self.title,
            "score": self.score,
            "gap": self.gap,
            "tokens": self.tokens.tolist(),
            "ngrams": ngrams,
        }


def train_classifier(data: TextData, seed: int, folder: Path, **options: Any) -> Record:
    """Trains a text classifier in a folder and returns its record.

    It is one RCNN layer of order 2: input-gated decay, sum over orders, ReLU, and the output at the
    last word. Up to a constant, its scores are sums over words and pairs of words.
    """
    models = TextModels(models=("rcnn",), hidden=100, layers=(1,), readout="last", counts=0)
    (config,) = text_model_configs(models, data)
    run = train(TextTask(data), config, seed, replace(TRAINING, **options), folder)
    (folder / LAST).unlink(missing_ok=True)
    return run.record


def chosen_texts(texts: Sequence[str], data: TextData, number: int) -> list[list[str]]:
    """The words of the given texts; if there are none, of the first medium-length test texts."""
    if not texts:
        tested = data.corpus.part("test")
        return [list(text) for text in tested if len(text) in LENGTHS][:number]
    words = [tokenize(text) for text in texts]
    if not all(words):
        raise InputError("--sentences: a text has no words")
    return words


@torch.no_grad()
def attributed(classifier: TextClassifier, words: Sequence[str]) -> Sentence:
    """Attributes the score of the last class over the first of two, in double precision."""
    net, (first, last) = classifier.net.cpu().double().eval(), classifier.hparams["classes"]
    text_net = TextNet(net.encoder.layers[0], net.head)
    ids, ptr = Vocabulary(classifier.hparams["words"]).encode([list(words)])
    x = net.embedding(ids)
    scores = net(TextBatch(ids, ptr, torch.zeros(1, dtype=torch.long)))[0]
    found = text_contributions(text_net, x, scores.new_tensor([-1.0, 1.0]), BEST_NGRAMS)
    score, expected = float(found.tokens.sum() + found.remainder), float(scores[1] - scores[0])
    gap = abs(score - expected)
    if not gap <= MOST_GAP * max(1.0, abs(expected)):
        raise InputError(f"words add up to {score:g}, the classifier's score is {expected:g}")
    cell = cell_of(text_net.rcnn)
    predicted = last if expected > 0 else first
    return Sentence(
        words=list(words),
        tokens=found.tokens,
        ngrams=[(positions, float(value)) for positions, value in found.ngrams],
        gates=ngram_sum(cell, x, x.new_ones(cell.hidden_size)).decay,
        score=score,
        gap=gap,
        title=f"score of class {last} over class {first}: {score:+.2f}; predicted {predicted}",
    )
