"""Exact attributions as algorithms of PyTorch Geometric's explainers."""

from __future__ import annotations

from functools import partial
from numbers import Integral

import torch
from torch import Tensor
from torch.nn import Module
from torch_geometric.explain import ExplainerAlgorithm, Explanation
from torch_geometric.explain.config import MaskType, ModelMode, ModelReturnType, ModelTaskLevel

from pyg_kernels.checks import checked_count
from pyg_kernels.explain.arguments import as_stored, checked_features, checked_place
from pyg_kernels.explain.models import Graphs, contributions_to, evaluating
from pyg_kernels.explain.ngrams import cell_of
from pyg_kernels.explain.text_net import TextNet, joined_texts, text_contributions, text_lengths
from pyg_kernels.propagation.graph import EdgeSource


class AttributionExplainer(ExplainerAlgorithm):
    """Base class of the explainers of graphs and of texts: selects the outputs to explain.

    Args:
        target: The index of the output, if there are several and the task does not determine it.
        k: How many walks or n-grams to find.
    """

    def __init__(self, target: int | None = None, k: int = 10) -> None:
        super().__init__()
        if target is not None and not isinstance(target, Integral):
            raise ValueError(f"target={target!r}: expected the number of an output")
        self.target = target
        self.k = checked_count(k, "k", 0)

    def weigh(self, outputs: Tensor, target: Tensor, index: int | Tensor | None) -> Tensor:
        """The weights of the outputs: 1 for the explained output of each row, 0 elsewhere."""
        weights = torch.zeros_like(outputs)
        rows = torch.arange(outputs.size(0), device=outputs.device)
        if index is not None:
            wanted = torch.as_tensor(index, device=outputs.device)
            if wanted.dtype != torch.bool:
                for place in wanted.reshape(-1).tolist():
                    checked_place(place, rows.numel(), "index", "graphs")
            rows = rows[wanted].reshape(-1)
        weights[rows, self._columns(outputs, target, rows)] = 1.0
        return weights

    def _columns(self, outputs: Tensor, target: Tensor, rows: Tensor) -> int | Tensor:
        if self.model_config.mode == ModelMode.multiclass_classification:
            if self.target is not None:
                raise ValueError(
                    f"target={self.target} with several classes: the explainer's own target names "
                    "the class, expected None"
                )
            return target.reshape(-1)[rows]
        if self.target is None and outputs.size(1) != 1:
            raise ValueError(
                f"the model has {outputs.size(1)} outputs: name one, "
                f"{self.__class__.__name__}(target=0)"
            )
        return checked_place(self.target or 0, outputs.size(1), "target", "outputs")

    def supports(self) -> bool:
        masks = (self.explainer_config.node_mask_type, self.explainer_config.edge_mask_type)
        return (
            all(mask in (None, MaskType.object) for mask in masks)
            and self.model_config.task_level == ModelTaskLevel.graph
            and self.model_config.return_type == ModelReturnType.raw
        )


class WalkExplainer(AttributionExplainer):
    r"""Explains a kernel network over graphs by :func:`model_contributions`, for
    :class:`torch_geometric.explain.Explainer` and its metrics.

    Masks are importances: the absolute shares of nodes, :obj:`(N, 1)`, and of edges,
    :obj:`(E,)`, each divided by the largest. The signed attribution is the explanation's
    ``contributions``, a :class:`ModelContributions`.

    The explained value is an output in regression, the logit in binary classification, and the
    logit of the explainer's target class in multiclass classification. With several graphs in
    ``batch`` it is the sum over all graphs, or over those that ``index`` names. Each node then
    gets its share of the output of its own graph.

    Args:
        target: The index of the output, if the network has several in regression or in binary
            classification; None in multiclass classification.
        k: How many walks to find, as in :func:`model_contributions`.

    Raises:
        ValueError: As :func:`model_contributions`; for several outputs without :obj:`target`; and
            unless the task is at graph level, outputs are raw and masks are of whole objects.

    Example:
        >>> import torch
        >>> from torch_geometric.explain import Explainer
        >>> from pyg_kernels.chem import MolFeaturizer
        >>> from pyg_kernels.explain import WalkExplainer
        >>> from pyg_kernels.nn import WLKernelNet
        >>> mol, net = MolFeaturizer()("CCO"), WLKernelNet(65, 16, 1)
        >>> explainer = Explainer(
        ...     net.eval(),
        ...     WalkExplainer(),
        ...     explanation_type="model",
        ...     node_mask_type="object",
        ...     edge_mask_type="object",
        ...     model_config={"mode": "regression", "task_level": "graph", "return_type": "raw"},
        ... )
        >>> found = explainer(mol.x, mol.edge_index)
        >>> found.node_mask.shape, found.edge_mask.shape
        (torch.Size([3, 1]), torch.Size([4]))
        >>> torch.allclose(found.contributions.output, net(mol.x, mol.edge_index))
        True

    See Also:
        :func:`model_contributions`, which it calls; :class:`NgramExplainer`, of texts.
    """

    def forward(
        self,
        model: Module,
        x: Tensor,
        edge_index: EdgeSource,
        *,
        target: Tensor,
        index: int | Tensor | None = None,
        edge_weight: Tensor | None = None,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
        batch_size: int | None = None,
    ) -> Explanation:
        weigh = partial(self.weigh, target=target, index=index)
        graphs = Graphs(x, edge_index, edge_attr, batch, batch_size, edge_weight)
        found = contributions_to(model, graphs, weigh, self.k)
        masks = self.explainer_config
        nodes = None if masks.node_mask_type is None else _importance(found.nodes).unsqueeze(1)
        edges = None if masks.edge_mask_type is None else _importance(found.edges)
        return Explanation(node_mask=nodes, edge_mask=edges, contributions=found)


class NgramExplainer(AttributionExplainer):
    """Explains a :class:`TextNet`, as :func:`ngram_contributions` explains its layer, for
    :class:`torch_geometric.explain.Explainer` and its metrics.

    The node mask, :obj:`(N, 1)`, holds the absolute shares of tokens divided by the largest. A
    text has no edges to explain. The signed attribution is the explanation's ``contributions``, an
    :class:`NgramContributions` whose total and remainder add up to the explained output. With
    several texts in ``batch`` this output is the sum over texts, and positions are rows of x.

    Args:
        target: As in :class:`WalkExplainer`.
        k: How many n-grams to find.

    Raises:
        ValueError: If the model is not a :class:`TextNet`; for a stage that is not piecewise
            linear, which the message names; and unless the task is at graph level, outputs are
            raw and the mask is of whole nodes.

    Example:
        >>> import torch
        >>> from torch_geometric.explain import Explainer
        >>> from pyg_kernels.explain import NgramExplainer, TextNet
        >>> from pyg_kernels.sequence import RCNN
        >>> explainer = Explainer(
        ...     TextNet(RCNN(5, 8, act="relu"), torch.nn.Linear(8, 1)),
        ...     NgramExplainer(k=3),
        ...     explanation_type="model",
        ...     node_mask_type="object",
        ...     model_config={"mode": "regression", "task_level": "graph", "return_type": "raw"},
        ... )
        >>> found = explainer(torch.rand(7, 5), edge_index=None)  # a text of seven tokens
        >>> found.contributions.tokens.shape, len(found.contributions.ngrams)
        (torch.Size([7]), 3)

    See Also:
        :func:`ngram_contributions`, which it calls; :class:`TextNet`; :class:`WalkExplainer`, of
        graphs.
    """

    @torch.no_grad()
    def forward(
        self,
        model: Module,
        x: Tensor,
        edge_index: Tensor | None = None,
        *,
        target: Tensor,
        index: int | Tensor | None = None,
        batch: Tensor | None = None,
        batch_size: int | None = None,
    ) -> Explanation:
        if not isinstance(model, TextNet):
            raise ValueError(f"model is a {type(model).__name__}: expected a TextNet")
        with evaluating(model), as_stored(x):
            checked_features(x, cell_of(model.rcnn).lins[0])
            outputs = model(x, edge_index, batch=batch, batch_size=batch_size)
            weights = self.weigh(outputs, target, index)
            texts = x.split(text_lengths(x, batch, batch_size).tolist())
            found = [
                text_contributions(model, text, row, self.k)
                for text, row in zip(texts, weights, strict=True)
            ]
        joined = joined_texts(found, self.k) if found else None
        mask = x.new_zeros(0) if joined is None else _importance(joined.tokens)
        return Explanation(node_mask=mask.unsqueeze(1), contributions=joined)

    def supports(self) -> bool:
        return super().supports() and self.explainer_config.edge_mask_type is None


def _importance(shares: Tensor) -> Tensor:
    """Absolute shares, divided by the largest."""
    found = shares.abs()
    largest = found.max() if found.numel() else found.new_zeros(())
    return found / largest if bool(largest > 0) else found
