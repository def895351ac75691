"""What a network on texts is built from, and the names that networks have."""

import re
from dataclasses import dataclass

CELLS = ("lstm", "rkm-lstm", "rkm-cifg", "linear-gated", "linear", "gated-cnn", "cnn", "ran")
LAYERED = ("rcnn", "lstm", "bi-lstm")  # whose number of layers is chosen
READOUTS = ("last", "mean")
READOUT = {"rcnn": "mean", "lstm": "last", "bi-lstm": "last"}  # unless one is chosen
CELL_NAME = re.compile(r"(.+)-([1-9]\d*)gram")
VARIANT_NAME = re.compile(r"(.+?)(?:-([1-9]\d*)layers)?(?:-decay-([\w.]+))?")


@dataclass(frozen=True)
class TextModelConfig:
    """Everything that ``build_text_model`` needs; plain values, so a checkpoint can carry it.

    Args:
        name (str): A key of ``models.MODELS``, with the number of layers and the decay behind it
            where several are compared (``rcnn-3layers-decay-0.5``), or one of :data:`CELLS` with a
            width: ``ran-3gram``.
        num_words (int): Size of the vocabulary.
        embedding_dim (int): Size of a word vector.
        fixed_embedding (bool): Whether word vectors are kept as they are.
        num_classes (int): Number of classes.
        hidden (int): Width.
        num_layers (int): Layers of :data:`LAYERED`; the others have one.
        dropout (float): Of word vectors, between layers, and of the text's vector.
        readout (str): What :data:`LAYERED` make of a text: ``'last'``, the output of the last layer
            at the last word; ``'mean'``, the mean over words of each layer, side by side.
        order (int): Words in an n-gram of ``'rcnn'``.
        decay (float or str): Of ``'rcnn'``: a number, ``'learned'``, ``'input'`` or
            ``'recurrent'``.
        activation (str): Of ``'rcnn'``; ``'none'`` for the identity.
        rcnn_readout (str): The readout of ``'rcnn'``: ``'c'``, ``'z'`` or ``'sum'``.
    """

    name: str
    num_words: int
    embedding_dim: int
    fixed_embedding: bool
    num_classes: int
    hidden: int
    num_layers: int = 2
    dropout: float = 0.2
    readout: str = "last"
    order: int = 2
    decay: float | str = "input"
    activation: str = "tanh"
    rcnn_readout: str = "c"


def is_cell(name: str) -> bool:
    """Whether a name is that of a recurrent kernel machine, a cell with a width."""
    match = CELL_NAME.fullmatch(name)
    return match is not None and match[1] in CELLS


def cell_of(name: str) -> tuple[str, int]:
    """The cell and the width that a name such as ``'rkm-lstm-3gram'`` says.

    Raises:
        ValueError: If it says none.
    """
    match = CELL_NAME.fullmatch(name)
    if match is None or match[1] not in CELLS:
        raise ValueError(
            f"{name!r} is not one of {', '.join(CELLS)} followed by -1gram, -2gram, ..."
        )
    return match[1], int(match[2])


def variant_name(kind: str, num_layers: int | None = None, decay: float | str | None = None) -> str:
    """The name of a model with a number of layers or a decay, where several are compared."""
    layers = "" if num_layers is None else f"-{num_layers}layers"
    return f"{kind}{layers}{'' if decay is None else f'-decay-{decay}'}"


def variant_of(name: str) -> tuple[str, int | None, float | str | None]:
    """Kind, number of layers and decay of a name such as ``'rcnn-3layers-decay-0.5'``.

    The last two are ``None`` where the name does not say them.
    """
    match = VARIANT_NAME.fullmatch(name)
    if match is None:
        return name, None, None
    kind, layers, decay = match.groups()
    return kind, int(layers) if layers else None, None if decay is None else decay_of(decay)


def decay_of(text: str) -> float | str:
    """A number where the word is one."""
    try:
        return float(text)
    except ValueError:
        return text
