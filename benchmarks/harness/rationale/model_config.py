"""What a network that gives rationales is built from, and the names that networks have."""

import re
from dataclasses import dataclass

from benchmarks.harness.rationale.names import MODELS, SELECTING

VARIANT_NAME = re.compile(r"(.+?)(?:-(rate|sparsity)-([-+.\de]+))?")


@dataclass(frozen=True)
class RationaleModelConfig:
    """Everything that builds a network; plain values, so a checkpoint can carry it.

    Args:
        name (str): See :func:`model_name`.
        kind (str): One of ``names.MODELS``.
        inputs (str): ``'texts'``, ``'molecules'`` or ``'questions'``.
        input_size (int): Size of a word vector, or features of an atom.
        out (int): Number of outputs: classes, 1 number, or the size of a question's vector.
        hidden (int): Width of generator and encoder.
        num_words (int): Size of the vocabulary; 0 for molecules.
        fixed_embedding (bool): Whether word vectors are kept as they are.
        edge_dim (int): Features of a bond; 0 for texts.
        mean (float): Of the numbers to predict, over the training part.
        std (float): Their standard deviation.
        num_layers (int): Of the encoder of texts; iterations of networks on molecules.
        readout (str): What the encoder of texts makes of its states: ``'last'``, ``'mean'``,
            ``'max'``.
        dropout (float): Of word vectors and of the vector of what is read.
        selection_size (int): Units that dependent selections are carried on with.
        estimator (str): One of ``names.ESTIMATORS``.
        rate (float, optional): The share to select; ``None`` where `sparsity` is given.
        warm_up (float): The fraction of all steps in which the encoder reads everything and alone
            learns.
        anneal (float): The fraction of all steps over which the share to select falls to `rate`.
        sparsity (float, optional): The price of a word or atom.
        coherence (float): The price of a transition.
        num_samples (int): Selections drawn of each text in training.
        temperature (float): Of the relaxation ``'gumbel'``.
        share (float): Of what the kinds that score words take.
        fields (str): Of questions, what is read: ``'title'`` or ``'body'``.
        num_negatives (int): Random questions for each similar one.
        margin (float): Of the hinge loss.
    """

    name: str
    kind: str
    inputs: str
    input_size: int
    out: int
    hidden: int
    num_words: int = 0
    fixed_embedding: bool = True
    edge_dim: int = 0
    mean: float = 0.0
    std: float = 1.0
    num_layers: int = 1
    readout: str = "mean"
    dropout: float = 0.2
    selection_size: int = 30
    estimator: str = "reinforce"
    rate: float | None = None
    warm_up: float = 0.0
    anneal: float = 0.0
    sparsity: float | None = None
    coherence: float = 0.0
    num_samples: int = 1
    temperature: float = 1.0
    share: float = 0.1
    fields: str = "body"
    num_negatives: int = 20
    margin: float = 1.0

    @property
    def selects(self) -> bool:
        """Whether it learns a rationale."""
        return self.kind in SELECTING


def model_name(kind: str, rate: float | None = None, sparsity: float | None = None) -> str:
    """What a network is called: its kind and, where several are compared, how much it selects."""
    if rate is not None:
        return f"{kind}-rate-{rate:g}"
    return kind if sparsity is None else f"{kind}-sparsity-{sparsity:g}"


def is_model_name(name: str) -> bool:
    """Whether a network can be called so."""
    match = VARIANT_NAME.fullmatch(name)
    if match is None or match[1] not in MODELS:
        return False
    return match[2] is None or match[1] in SELECTING
