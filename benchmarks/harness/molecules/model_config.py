"""What a network of the molecule benchmark is made of, as plain values."""

from dataclasses import dataclass

NORMS = ("batch", "layer", "head", None)
READOUTS = ("sum", "last", "concat")


@dataclass(frozen=True)
class ModelConfig:
    """Everything that ``models.build_model`` needs; a checkpoint carries it.

    Args:
        name (str): A key of ``models.MODELS``.
        node_dim (int): Number of atom features.
        edge_dim (int): Number of bond features.
        num_targets (int): Number of values to predict for a molecule.
        hidden (int): Width.
        num_layers (int): Layers, or iterations of the Weisfeiler-Lehman and the embedded
            networks. For the single-layer random-walk networks, the number of nodes in a walk
            where `order` is ``None``.
        order (int, optional): Number of nodes in a walk; ``None``: 2, or as `num_layers` says.
        norm (str, optional): Normalisation of every layer and of the head, one of
            :data:`NORMS`; ``'head'``: over the batch, of the head alone; ``None``: none. Neural
            Fingerprint has it in the head alone, attentive-fp and mean have none whatever it says,
            and attentive-fp refuses ``"layer"`` and ``"head"``.
        dropout (float): Probability of dropping a channel: of the layers' states, of the
            fingerprint of Neural Fingerprint, and where PyG's ``AttentiveFP`` does.
        readout (str): Which iterations the head of a Weisfeiler-Lehman network sees, one of
            :data:`READOUTS`; the other networks have the first alone.
    """

    name: str
    node_dim: int
    edge_dim: int
    num_targets: int
    hidden: int
    num_layers: int = 4
    order: int | None = None
    norm: str | None = "batch"
    dropout: float = 0.0
    readout: str = "sum"
