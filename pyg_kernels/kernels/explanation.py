"""Predictions of kernels of counts, divided among patterns and atoms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from pyg_kernels.checks import checked_count
from pyg_kernels.kernels.count_kernel import CountKernel, LabelCounts
from pyg_kernels.kernels.gp import KernelGP, KernelGPClassifier
from pyg_kernels.kernels.kernel import full_precision
from pyg_kernels.kernels.patterns import pattern_names
from pyg_kernels.kernels.reading import read_chunks


@dataclass(frozen=True)
class Explanation:
    """The parts of a prediction, which add up to it.

    Args:
        names: The patterns with a part, the largest parts first; see ``get_feature_names_out``.
        shares: The parts of these patterns.
        kernels: For each of these patterns, the index of its kernel in the sum of kernels.
        atoms: The parts of the nodes, ``(N,)``. The part of a pattern is divided equally among its
            occurrences, and the part of an occurrence equally among its nodes. An environment
            counts as one node, its center. Empty if no kernel counts patterns.
        others: The parts of kernels that count no patterns, by their index in the sum of kernels.
        bias: The part that belongs to no kernel.
    """

    names: list[str]
    shares: NDArray[np.float64]
    kernels: NDArray[np.int64]
    atoms: NDArray[np.float64]
    others: dict[int, float]
    bias: float

    @property
    def prediction(self) -> float:
        """The sum of all parts."""
        return float(self.shares.sum()) + sum(self.others.values()) + self.bias


def explain(
    model: KernelGP | KernelGPClassifier | Pipeline, x: Any, target: int = 0
) -> Explanation:
    r"""Divides the prediction of one graph among its patterns and its nodes.

    In a model that is linear in counts, :math:`\sum_a c_a \#_a(x) + b`, the part of pattern a is
    its summand. In a sum over fitted graphs, :math:`\sum_i \alpha_i K(x, x_i) + b`, its part is
    :math:`\sum_i \alpha_i K_a(x, x_i)`, where :math:`K_a` is its summand in the inner product or
    in the minima. With ``'minmax'``, :math:`K_a` is divided by the sum of all maxima of the pair,
    which also depends on the other patterns. In both cases the parts add up to the prediction.

    Args:
        model: A fitted model. Of a :class:`KernelGP` the mean is divided; of a
            :class:`KernelGPClassifier` the posterior mean of the log odds of the second of two
            classes, or of the logit of one of several classes. It may also be a pipeline of a
            kernel of counts and a linear estimator (``predict``, or ``decision_function`` of a
            classifier). With ``output='gram'``, the estimator is ``KernelRidge``, ``SVR``, or
            ``SVC`` of two classes, each with ``kernel='precomputed'``.
        x: One graph or molecule.
        target: The index of a target, of one of more than two classes, or of a row of ``coef_``.

    Raises:
        TypeError: On another model, a kernel that does not say where its patterns occur, or a
            classifier of several targets with more than two classes.
        ValueError: If there is no such target; on inputs that the kernels do not accept.

    Example:
        >>> import numpy as np
        >>> from pyg_kernels.kernels import KernelGP, WLSubtreeKernel, explain
        >>> smiles, y = ["CCO", "CCCO", "CCCCO", "c1ccccc1", "Cc1ccccc1"], [0.0, 0.3, 0.8, 2.1, 2.7]
        >>> gp = KernelGP(WLSubtreeKernel(compare="minmax")).fit(smiles, y)
        >>> parts = explain(gp, "CCO")
        >>> parts.names[0], parts.atoms.shape
        ('[OX2H1]', (3,))
        >>> np.allclose(parts.atoms.sum() + parts.bias, gp.predict(["CCO"]))
        True

    See Also:
        :class:`Explanation`, what it returns; :func:`~pyg_kernels.explain.model_contributions`, for
        networks.
    """
    checked_count(target, "target", least=0)
    if isinstance(model, KernelGP | KernelGPClassifier):
        check_is_fitted(model, "weights_")
        return _of_process(model, x, _signs(model, target))
    if isinstance(model, Pipeline) and len(model.steps) == 2:
        kernel, estimator = (step for _, step in model.steps)
        if isinstance(kernel, CountKernel):
            check_is_fitted(kernel, "labels_")
            return _of_estimator(kernel, estimator, x, target)
    raise TypeError(
        f"{model!r}: expected a KernelGP, a KernelGPClassifier, or a pipeline of a kernel of "
        "counts and an estimator"
    )


def _signs(gp: KernelGP | KernelGPClassifier, target: int) -> dict[int, float]:
    """The indices and signs of a process's functions in the sum that is divided."""
    if isinstance(gp, KernelGP):
        return {_chosen(target, len(gp._fits)): 1.0}
    sizes = [len(classes) for classes in gp._every_class]
    if sizes == [2] * len(sizes):
        first = 2 * _chosen(target, len(sizes))
        return {first: -1.0, first + 1: 1.0}
    if len(sizes) > 1:
        raise TypeError(f"targets of {sizes} classes: expected one target, or two classes of each")
    return {_chosen(target, sizes[0]): 1.0}


@torch.no_grad()
@full_precision()
def _of_process(gp: KernelGP | KernelGPClassifier, x: Any, signs: dict[int, float]) -> Explanation:
    fits = [(gp._fits[number], sign) for number, sign in signs.items()]
    alphas = [sign * fit.scale * fit.alpha[:, 0].double().numpy() for fit, sign in fits]
    factors = iter(np.stack([fit.factors for fit, _ in fits], 1))
    parts: list[tuple[int, CountKernel, LabelCounts, NDArray[Any]]] = []
    others: dict[int, float] = {}
    for number, kernel in enumerate(gp.kernels_):
        own, shares = kernel._read([x], kernel.collection_), np.zeros(0)
        if isinstance(kernel, CountKernel):
            shares = np.zeros(own.matrix.shape[1])
            parts.append((number, kernel, own, shares))
        known = (gp._levels(kernel, kernel.collection_.part(fit.items)) for fit, _ in fits)
        for one, *each in zip(gp._levels(kernel, own), *known, strict=True):
            for factor, alpha, other in zip(next(factors), alphas, each, strict=True):
                if isinstance(kernel, CountKernel):
                    found = kernel._kernel_shares(one, other, factor * alpha)
                    shares[: len(found)] += found  # a level has only the first patterns
                else:
                    row = kernel._gram(one, other)[0].double().cpu().numpy()
                    others[number] = others.get(number, 0.0) + float(factor * (row @ alpha))
    return _explanation(x, parts, others, sum(sign * fit.mean for fit, sign in fits))


def _of_estimator(kernel: CountKernel, estimator: Any, x: Any, target: int) -> Explanation:
    own = kernel._read([x])
    if kernel.output == "features" and hasattr(estimator, "coef_"):
        found = estimator.coef_.toarray() if sparse.issparse(estimator.coef_) else estimator.coef_
        rows = np.reshape(found, (-1, kernel.features_.shape[1]))
        shares = kernel._linear_shares(own, rows[_chosen(target, len(rows))])
    elif kernel.output == "gram" and hasattr(estimator, "dual_coef_"):
        items = getattr(estimator, "support_", np.arange(len(kernel.collection_)))
        found = estimator.dual_coef_
        rows = found if hasattr(estimator, "support_") else np.reshape(found, (len(items), -1)).T
        if len(getattr(estimator, "classes_", ())) > 2:
            raise TypeError(f"{estimator!r} compares pairs of classes: expected two classes")
        known = kernel.collection_.part(items)
        shares = kernel._kernel_shares(own, known, rows[_chosen(target, len(rows))])
    else:
        raise TypeError(f"{estimator!r}: expected an estimator that is linear in what it is given")
    intercepts = np.ravel(getattr(estimator, "intercept_", 0.0))
    bias = float(np.broadcast_to(intercepts, len(rows))[target])
    output = getattr(estimator, "decision_function", estimator.predict)
    expected = np.reshape(output(kernel.transform([x])), -1)[target]
    size = np.abs(shares).sum() + abs(bias)  # of the parts, which may cancel
    if not abs(shares.sum() + bias - expected) <= 1e-5 * size:
        raise TypeError(
            f"{estimator!r} predicts {expected:.6g} where its coefficients add up to "
            f"{shares.sum() + bias:.6g}: expected an estimator that is linear in what it is given, "
            "such as SVR(kernel='precomputed') for output='gram'"
        )
    return _explanation(x, [(0, kernel, own, shares)], {}, bias)


def _explanation(
    x: Any,
    parts: list[tuple[int, CountKernel, LabelCounts, NDArray[Any]]],
    others: dict[int, float],
    bias: float,
) -> Explanation:
    names: list[str] = []
    atoms = np.zeros(0)
    for _, kernel, own, shares in parts:
        names += pattern_names(kernel, [x], own.labels)
        (graphs,) = read_chunks([x], kernel._attributes())
        atoms = atoms if len(atoms) else np.zeros(graphs.num_nodes)
        if len(atoms) != graphs.num_nodes:
            raise ValueError(
                f"kernels read x with {len(atoms)} and with {graphs.num_nodes} nodes: their "
                "featurizers must give the same ones"
            )
        blocks = zip(kernel._occurrences(graphs, complete=True), own.labels, strict=True)
        for block, labels in blocks:
            nodes = block.nodes.cpu().numpy()
            places = np.searchsorted(labels, block.labels.cpu().numpy())
            each, shares = np.split(shares, [len(labels)])
            each = each / np.bincount(places, minlength=len(labels))
            np.add.at(atoms, nodes, each[places][:, None] / nodes.shape[1])
    shares = np.concatenate([np.zeros(0), *(part[3] for part in parts)])
    numbers = np.repeat([part[0] for part in parts], [len(part[3]) for part in parts]).astype(int)
    order = np.argsort(-np.abs(shares), kind="stable")
    order = order[shares[order] != 0]
    names = [names[i] for i in order]
    return Explanation(names, shares[order], numbers[order], atoms, others, bias)


def _chosen(target: int, number: int) -> int:
    if target >= number:
        raise ValueError(f"target={target}: the model has {number}")
    return target
