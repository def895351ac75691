"""What a network on texts is built from, and the names that networks have."""

from dataclasses import dataclass

CELLS = ("lstm", "rkm-lstm", "rkm-cifg", "linear-gated", "linear", "gated-cnn", "cnn", "ran")
LAYERED = ("rcnn", "lstm", "bi-lstm")  # whose number of layers is chosen
READOUT = {"rcnn": "mean", "lstm": "last", "bi-lstm": "last"}  # unless one is chosen


@dataclass(frozen=True)
class TextModelConfig:
    """Everything that ``build_text_model`` needs; plain values, so a checkpoint can carry it.

    What is not said here is as the option of the same name in
    :class:`~benchmarks.harness.text.options.TextModels`.
    """

    # of the model: its kind, with the number of layers and the decay behind it where several are
    # compared (``rcnn-3layers-decay-0.5``), or with the width of its filters (``ran-3gram``)
    name: str
    num_words: int  # size of the vocabulary
    embedding_dim: int  # size of a word vector
    fixed_embedding: bool  # whether word vectors are kept as they are
    num_classes: int
    hidden: int
    num_layers: int = 2  # layers of :data:`LAYERED`; the others have one
    dropout: float = 0.2
    readout: str = "last"
    order: int = 2
    decay: float | str = "input"  # a number, ``'learned'``, ``'input'`` or ``'recurrent'``
    activation: str = "tanh"
    rcnn_readout: str = "c"
    kind: str = ""  # a key of ``models.MODELS``; empty: the name
    # words that the filters of a recurrent kernel machine read, whose kind is one of :data:`CELLS`;
    # 0: it is none
    ngram: int = 0
