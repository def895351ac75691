"""What users hand over: forms of collections, types, threads and modes that must not matter."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.feature_extraction.text import CountVectorizer
from torch import Tensor
from torch_geometric.data import Batch, Data, HeteroData

from pyg_kernels.features import RandomFeatures
from pyg_kernels.kernels import (
    DeepGraphKernel,
    DeepStringKernel,
    DiscreteRelabeling,
    GatedSequenceKernel,
    GeneralizedRelabeling,
    RandomWalkKernel,
    StringKernel,
    WLKernel,
    WLSubtreeKernel,
    arc_cosine,
    inverse_polynomial,
    label_counts,
    polynomial,
    reading,
)
from tests.kernels.walks import gram as matrix_of
from tests.kernels.walks import random_walk_kernel
from tests.sequence.texts import F64, random_text

RING = torch.tensor([[0, 1, 2, 1, 2, 0], [1, 2, 0, 0, 1, 2]])


def ring(value: float = 1.0, dtype: torch.dtype = F64) -> Data:
    return Data(x=torch.full((3, 1), value, dtype=dtype), edge_index=RING)


def graphs(count: int = 8) -> list[Data]:
    generator = torch.Generator().manual_seed(0)
    return [
        Data(x=torch.randn(3, 2, generator=generator, dtype=F64), edge_index=RING)
        for _ in range(count)
    ]


@pytest.fixture
def two_threads() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("kernel", [RandomWalkKernel(), WLSubtreeKernel(), StringKernel()])
@pytest.mark.parametrize("items", [{"a": 1}, pd.DataFrame({"text": ["a", "b"]}), 3, iter([])])
def test_no_collections(kernel: Any, items: Any) -> None:
    with pytest.raises(TypeError, match="expected a list of"):
        kernel(items)


TEXT_KERNELS = [StringKernel(3, 0.5), DeepStringKernel(1), GatedSequenceKernel()]
SENTENCES = ["The cat sat on the mat", "a Cat is no dog", "", "mat mat"]
TOKENS = {
    "char": list,
    "word": CountVectorizer().build_analyzer(),
    "split": lambda text: text.lower().split(),
    "codes": lambda text: [ord(c) % 7 for c in text],
}
ANALYZERS: list[tuple[str, dict[str, Any]]] = [
    ("char", {}),
    ("char", {"analyzer": "char"}),
    ("word", {"analyzer": "word"}),
    ("split", {"analyzer": "word", "tokenizer": str.split}),
    ("split", {"analyzer": TOKENS["split"]}),
    ("codes", {"analyzer": TOKENS["codes"]}),
]


@pytest.mark.parametrize(("tokens", "options"), ANALYZERS)
@pytest.mark.parametrize("kernel", TEXT_KERNELS, ids=lambda kernel: type(kernel).__name__)
def test_tokens_of_strings(kernel: Any, tokens: str, options: dict[str, Any]) -> None:
    """As scikit-learn's vectorizers split them, in every form of a collection."""
    lists = [TOKENS[tokens](text) for text in SENTENCES]
    expected = kernel(lists)
    kernel = clone(kernel).set_params(**options)
    for form in (
        SENTENCES,
        np.array(SENTENCES),
        np.array(SENTENCES, dtype=object),
        pd.Series(SENTENCES, index=[5, 3, 1, 2]),
        pd.Series(SENTENCES, dtype="string"),
    ):
        torch.testing.assert_close(kernel(form), expected)
    torch.testing.assert_close(kernel(SENTENCES[:1], SENTENCES), expected[:1])
    one = kernel.prefixes(SENTENCES[0], SENTENCES[1])
    assert one.shape == (len(lists[0]), len(lists[1]))
    torch.testing.assert_close(one[-1, -1], expected[0, 1])
    if not callable(options.get("analyzer")):  # tokens stay what they are
        torch.testing.assert_close(kernel(lists), expected)


@pytest.mark.parametrize("kernel", TEXT_KERNELS, ids=lambda kernel: type(kernel).__name__)
def test_strings_where_tokens_are_meant(kernel: Any) -> None:
    words, match = [["a", "cat"], ["the"]], r"analyzer='word' splits strings into words"
    for call in (
        lambda: kernel([*words, "cat"]),
        lambda: kernel(["cat", *words]),
        lambda: kernel(words, ["cat"]),
        lambda: kernel.fit(["cat"]).transform(words),
        lambda: kernel.prefixes("a cat", words[0]),
    ):
        with pytest.raises(ValueError, match=match):
            call()
    assert kernel(["cat", ["c", "a"]]).shape == (2, 2)
    assert kernel([["a"], ["I"]], words).shape == (2, 2)
    with pytest.raises(TypeError, match=r"not one string: \['a cat'\] is a list"):
        kernel("a cat")
    with pytest.raises(TypeError, match=r"not \(2, 1\): give texts\[:, 0\]"):
        kernel(pd.DataFrame({"text": ["a", "b"]}).to_numpy())
    with pytest.raises(TypeError, match="text 1 is a float"):
        kernel(pd.Series(["a", None, "b"]))
    for options in ({"analyzer": "words"}, {"tokenizer": str.split}):
        with pytest.raises(ValueError, match=next(iter(options))):
            clone(kernel).set_params(**options).fit(SENTENCES)
    with pytest.raises(ValueError, match="tokenizer='split'"):
        clone(kernel).set_params(analyzer="word", tokenizer="split").fit(SENTENCES)


def test_other_graphs() -> None:
    with pytest.raises(TypeError, match="graph 0 is a HeteroData"):
        RandomWalkKernel()(HeteroData())
    with pytest.raises(TypeError, match="HeteroData"):
        RandomWalkKernel()(Batch.from_data_list([HeteroData(a={"x": torch.ones(2, 1)})]))
    with pytest.raises(ValueError, match=r"graph 1 .*adj_t"):
        RandomWalkKernel()([ring(), Data(x=torch.ones(2, 1), adj_t=torch.eye(2).to_sparse())])
    unsorted = Batch(x=torch.ones(3, 1), edge_index=RING[:, :0], batch=torch.tensor([0, 1, 0]))
    with pytest.raises(ValueError, match="not sorted"):
        RandomWalkKernel()(unsorted)


def test_numbers_that_are_neither_labels_nor_vectors() -> None:
    labels = Data(x=torch.zeros(3, dtype=torch.long), edge_index=RING)
    numbers = Data(x=torch.zeros(3), edge_index=RING)
    with pytest.raises(ValueError, match=r"graph 2 .* labels of one type"):
        RandomWalkKernel()([labels, labels, numbers])
    with pytest.raises(ValueError, match=r"graph 1 has an edge_index of shape .*sparse"):
        RandomWalkKernel()([ring(), Data(x=torch.ones(2, 1), edge_index=torch.eye(2).to_sparse())])


def test_codes_are_no_vectors() -> None:
    codes = [ring(), ring(dtype=torch.float32), ring(6.0, torch.int64)]
    with pytest.raises(ValueError, match="graph 2 has integers other than 0 and 1 in 'x'"):
        RandomWalkKernel()(codes)
    one_hot = ring(1.0, torch.int64)
    with pytest.raises(ValueError, match=r"graph 2 .* 'x'"):
        DeepGraphKernel()(Batch.from_data_list([one_hot, one_hot, codes[2]]))
    assert WLSubtreeKernel(0)([codes[2]]).item() == 9


def test_labels_of_one_type() -> None:
    large = [ring(2**24 + k, torch.int64) for k in (0, 1)]
    assert WLSubtreeKernel(0)(large)[0, 1] == 0
    with pytest.raises(ValueError, match=r"graph 2 .*one type"):
        WLSubtreeKernel(0)([*large, ring(dtype=torch.float32)])


def test_rows_of_another_width_are_other_labels() -> None:
    narrow, wide = (Data(x=torch.eye(width)[:3], edge_index=RING[:, :0]) for width in (3, 4))
    kernel = WLSubtreeKernel(0, output="gram").fit([narrow])
    assert kernel.transform([wide]).item() == 0


def test_the_fitted_collection_is_a_copy() -> None:
    graph = ring()
    kernel = RandomWalkKernel(2).fit([graph])
    expected = kernel.transform([ring()])
    graph.x.mul_(10)
    np.testing.assert_array_equal(kernel.transform([ring()]), expected)


def test_small_and_large_values() -> None:
    tiny = [ring(1e-10, torch.float32), ring(2e-10, torch.float32)]
    cosine = RandomWalkKernel(1, normalize=True)(tiny)
    torch.testing.assert_close(cosine, torch.ones(2, 2))
    with pytest.raises(ValueError, match=r"not finite in torch\.float32"):
        RandomWalkKernel(5)([ring(1e5, torch.float32)])
    assert RandomWalkKernel(5, dtype=F64)([ring(1e5, torch.float32)]).isfinite().all()


@pytest.mark.parametrize("edge_dtype", [torch.int64, torch.float64, torch.float32])
def test_types_that_differ(edge_dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    edges = torch.randint(2, (6, 2), generator=generator).to(edge_dtype)
    graph = Data(x=torch.rand(3, 2, generator=generator), edge_index=RING, edge_attr=edges)
    double = Data(x=graph.x.double(), edge_index=RING, edge_attr=edges.double())
    eye = torch.eye(2)
    wide = torch.cat([eye, eye], dim=1)
    for relabel in [
        (eye, eye, eye),
        GeneralizedRelabeling(eye, eye, wide, edge_feature="edge_attr"),
    ]:
        kernel = WLKernel(RandomWalkKernel(2), relabel, 2)
        torch.testing.assert_close(kernel([graph]).double(), kernel([double]), rtol=1e-5, atol=1e-6)


def test_padding_is_no_token() -> None:
    kernel = DeepStringKernel(1, 1, 0.5, inverse_polynomial(normalize=False), post=True)
    gram = kernel([[0], [0, 1, 2]])
    assert gram[0, 0] == kernel([[0]]).item() and gram[1, 1] == kernel([[0, 1, 2]]).item()


def test_activations_see_no_padding_in_deeper_layers() -> None:
    def activation(k_xy: Tensor, k_xx: Tensor, k_yy: Tensor) -> Tensor:
        assert float(max(k_xx.max(), k_yy.max())) <= 1
        return arc_cosine(0)(k_xy, k_xx, k_yy)

    short, long = torch.ones(1, 1, dtype=F64), torch.zeros(5, 1, dtype=F64)
    gram = DeepStringKernel(2, 1, 0.5, activation, post=True)([short, long])
    assert torch.equal(gram, torch.tensor([[1.0, 0.0], [0.0, 0.0]], dtype=F64))


@pytest.mark.parametrize(
    "kernel", [RandomWalkKernel(4, 0.7), WLSubtreeKernel(2, edge_label="edge_attr")]
)
def test_edges_that_lead_both_ways_with_different_features(kernel: Any) -> None:
    """The same features, each way round on a path: walks differ from walks read backwards."""
    index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    x = torch.tensor([[1.0], [2.0], [4.0]], dtype=F64)
    down = Data(x=x, edge_index=index, edge_attr=torch.tensor([1.0, 3.0, 2.0, 5.0], dtype=F64))
    up = Data(x=x, edge_index=index, edge_attr=torch.tensor([3.0, 1.0, 5.0, 2.0], dtype=F64))
    found = kernel([down, up]).double()
    if isinstance(kernel, RandomWalkKernel):
        definition = matrix_of(
            lambda a, b: random_walk_kernel(a, b, 4, 0.7, "x", "edge_attr"), [down, up], [down, up]
        )
        torch.testing.assert_close(found, definition, rtol=1e-10, atol=0)
    else:
        assert found[0, 1] < found[0, 0]


def test_a_batch_whose_edges_are_not_sorted_by_graph() -> None:
    items = graphs(4)
    for graph in items:
        graph.edge_attr = graph.x[graph.edge_index[0]] * graph.x[graph.edge_index[1], :1]
    batch = Batch.from_data_list(items)
    order = torch.randperm(batch.num_edges, generator=torch.Generator().manual_seed(0))
    batch.edge_index, batch.edge_attr = batch.edge_index[:, order], batch.edge_attr[order]
    for kernel in (RandomWalkKernel(3), WLSubtreeKernel(2, edge_label="edge_attr")):
        torch.testing.assert_close(kernel(batch), kernel(items))


def test_large_counts_are_exact() -> None:
    """Products of counts above 2^24, which float32 does not have."""
    sizes = [5001, 4999]
    empty = torch.empty(2, 0, dtype=torch.long)
    items = [Data(x=torch.zeros(n, dtype=torch.long), edge_index=empty) for n in sizes]
    found = WLSubtreeKernel(0)(items)
    assert found.tolist() == [[a * b for b in sizes] for a in sizes]


def test_chunks_of_a_collection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some graphs at a time, as collections of many thousands are read."""
    items = graphs(7)
    kernels = [WLSubtreeKernel(2), WLSubtreeKernel(2, normalize=True), RandomWalkKernel(3)]
    expected = [kernel.fit_transform(items) for kernel in kernels]
    for module in (label_counts, reading):
        monkeypatch.setattr(module, "GRAPHS_AT_A_TIME", 3)
    for kernel, whole in zip(kernels, expected, strict=True):
        for form in (items, Batch.from_data_list(items)):
            found = kernel.fit_transform(form)
            np.testing.assert_array_equal(_dense(found), _dense(whole))
    items[5].x = items[5].x * torch.nan
    with pytest.raises(ValueError, match="graph 5 has NaN"):
        RandomWalkKernel()(items)


def _dense(found: Any) -> Any:
    return found.toarray() if hasattr(found, "toarray") else found


@pytest.mark.usefixtures("two_threads")
def test_gradients_with_threads() -> None:
    texts = [torch.zeros(0, 2, dtype=F64) for _ in range(30)]
    texts += [random_text(6, 2, seed=k).requires_grad_() for k in range(6)]
    for kernel in (StringKernel(2, max_memory=4800), DeepStringKernel(max_memory=4800)):
        gram = kernel(texts)
        assert gram.requires_grad
        gram.sum().backward()
        assert all(text.grad is not None and text.grad.abs().sum() > 0 for text in texts[30:])


@pytest.mark.usefixtures("two_threads")
def test_parameters_of_an_activation_with_threads() -> None:
    scale = torch.tensor(2.0, dtype=F64, requires_grad=True)

    def activation(k_xy: Tensor, k_xx: Tensor, k_yy: Tensor) -> Tensor:
        return scale * k_xy

    gram = DeepGraphKernel(1, activation=activation, max_memory=1)(graphs())
    (found,) = torch.autograd.grad(gram.sum(), scale)
    (expected,) = torch.autograd.grad(
        DeepGraphKernel(1, activation=activation)(graphs()).sum(), scale
    )
    torch.testing.assert_close(found, expected)


@pytest.mark.usefixtures("two_threads")
def test_modes_with_threads() -> None:
    kernel = RandomWalkKernel(max_memory=1)
    expected = kernel(graphs())
    with torch.inference_mode():
        torch.testing.assert_close(kernel(graphs()), expected)
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(kernel(graphs()), expected)
    assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("two_threads")
def test_an_error_in_a_thread() -> None:
    def activation(k_xy: Tensor, k_xx: Tensor, k_yy: Tensor) -> Tensor:
        if bool((k_xy > 1e3).any()):
            raise RuntimeError("too large")
        return k_xy

    many = [*graphs(), Data(x=torch.full((3, 2), 100.0, dtype=F64), edge_index=RING)]
    with pytest.raises(RuntimeError, match="too large"):
        DeepGraphKernel(activation=activation, max_memory=1)(many)
    assert torch.get_num_threads() == 2


def test_strings_have_the_same_features_in_every_call() -> None:
    features = RandomFeatures(StringKernel(1, 1.0), 4096, 0)
    first, second = features.fit(["ab"]), RandomFeatures(StringKernel(1, 1.0), 4096, 0).fit(["ba"])
    np.testing.assert_array_equal(first.transform(["aab"]), second.transform(["aab"]))
    together = first.transform(["x", "y"])
    np.testing.assert_array_equal(first.transform(["y"]), together[1:])
    assert abs(float(together[0] @ together[1])) < 5 / 4096**0.5


def test_classes_in_place_of_objects() -> None:
    with pytest.raises(TypeError, match="base="):
        WLKernel(RandomWalkKernel)(graphs())
    with pytest.raises(ValueError, match="relabel="):
        WLKernel(relabel=DiscreteRelabeling)(graphs())
    with pytest.raises(ValueError, match="activation="):
        DeepGraphKernel(activation=inverse_polynomial)(graphs())
    with pytest.raises(ValueError, match="coefficients="):
        polynomial(5)
    eye = torch.eye(2, dtype=F64)
    with pytest.raises(TypeError, match="counts labels"):
        WLKernel(WLSubtreeKernel(), (eye, eye, eye))(graphs())
    with pytest.raises(ValueError, match="base gave a matrix"):
        WLKernel(lambda a, b: torch.ones(2, 3))(graphs())
    with pytest.raises(ValueError, match="more than one iteration"):
        WLKernel(relabel=(torch.ones(3, 2), torch.ones(3, 2), torch.ones(2, 2)))(graphs())
