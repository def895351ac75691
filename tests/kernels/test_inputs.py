"""What users hand over: forms of items, several attributes, types, threads, and what is refused."""

from collections.abc import Callable
from math import nan
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.feature_extraction.text import CountVectorizer
from torch import Tensor
from torch_geometric.data import Batch, Data, HeteroData

from pyg_kernels.kernels import (
    DeepGraphKernel,
    DeepStringKernel,
    DiscreteRelabeling,
    GatedSequenceKernel,
    GeneralizedRelabeling,
    LabelSequenceKernel,
    RandomWalkKernel,
    ShortestPathKernel,
    StringKernel,
    VectorKernel,
    WLKernel,
    WLSubtreeKernel,
    arc_cosine,
    inverse_polynomial,
    reading,
)
from tests.kernels.cases import (
    F64,
    Stored,
    as_networkx,
    both_ways,
    changed,
    close,
    close_sums,
    graph_collection,
    identified,
    vectors,
)
from tests.kernels.definitions import defined

GRAPHS = graph_collection()
RING = torch.tensor([[0, 1, 2, 1, 2, 0], [1, 2, 0, 0, 1, 2]])
EYE = torch.eye(2, dtype=F64)


def ring(value: float = 1.0, dtype: torch.dtype = F64, **attributes: Any) -> Data:
    known = {"x": torch.full((3, 1), value, dtype=dtype), "edge_index": RING}
    return Data(**known | attributes)


def rings(count: int = 8) -> list[Data]:
    generator = torch.Generator().manual_seed(0)
    return [ring(x=torch.randn(3, 2, generator=generator, dtype=F64)) for _ in range(count)]


TEXT_KERNELS = [StringKernel(3, 0.5), DeepStringKernel(1), GatedSequenceKernel()]
of_texts = identified(TEXT_KERNELS)
SENTENCES = ["The cat sat on the mat", "a Cat is no dog", "", "mat mat"]
ANALYZERS: list[tuple[Callable[[str], list[Any]], dict[str, Any]]] = [
    (list, {}),
    (list, {"analyzer": "char"}),
    (CountVectorizer().build_analyzer(), {"analyzer": "word"}),
    (lambda text: text.lower().split(), {"analyzer": "word", "tokenizer": str.split}),
    *((f, {"analyzer": f}) for f in (str.split, lambda text: [ord(c) % 7 for c in text])),
]


@pytest.mark.parametrize(("tokens", "options"), ANALYZERS)
@of_texts
def test_tokens_of_strings(kernel: Any, tokens: Any, options: dict[str, Any]) -> None:
    """Strings are split as by scikit-learn's vectorizers, in every form of a collection."""
    lists = list(map(tokens, SENTENCES))
    expected = kernel(lists)
    kernel = clone(kernel).set_params(**options)
    series = pd.Series(SENTENCES, index=[5, 3, 1, 2])
    arrays = [np.array(SENTENCES, dtype=dtype) for dtype in (str, object)]
    for form in (SENTENCES, *arrays, series, series.astype("string"), series.array):
        close(kernel(form), expected)
    close(kernel(series[::-1]), expected.flip(0, 1))
    close(kernel(SENTENCES[:1], SENTENCES), expected[:1])
    one = kernel.prefixes(SENTENCES[0], SENTENCES[1])
    assert one.shape == (len(lists[0]), len(lists[1]))
    close(one[-1, -1], expected[0, 1])
    if not callable(options.get("analyzer")):  # given tokens are not split
        close(kernel(lists), expected)


@of_texts
def test_strings_where_tokens_are_meant(kernel: Any) -> None:
    words, match = [["a", "cat"], ["the"]], r"analyzer='word' splits strings into words"
    for call, *items in (
        (kernel, [*words, "cat"]),
        (kernel, ["cat", *words]),
        (kernel, words, ["cat"]),
        (kernel.prefixes, "a cat", words[0]),
        (clone(kernel).fit(["cat"]).transform, words),
    ):
        with pytest.raises(ValueError, match=match):
            call(*items)
    assert kernel(["cat", ["c", "a"]]).shape == (2, 2)
    assert kernel([["a"], ["I"]], words).shape == (2, 2)
    with pytest.raises(ValueError, match=r"are empty lists: give empty texts of shape \(0, F\)"):
        kernel.fit([[], []]).transform([vectors(2)])


def test_padding_is_no_token() -> None:
    def activation(k_xy: Tensor, k_xx: Tensor, k_yy: Tensor) -> Tensor:
        assert float(max(k_xx.max(), k_yy.max())) <= 1  # also in deeper layers
        return arc_cosine(0)(k_xy, k_xx, k_yy)

    short, long = torch.ones(1, 1, dtype=F64), torch.zeros(5, 1, dtype=F64)
    gram = DeepStringKernel(2, 1, 0.5, activation, post=True)([short, long])
    assert torch.equal(gram, torch.tensor([[1.0, 0.0], [0.0, 0.0]], dtype=F64))


FORMS: dict[str, Callable[[Tensor], Any]] = {
    "int32": lambda kind: kind.to(torch.int32),
    "uint8": lambda kind: kind.to(torch.uint8),
    "float": lambda kind: kind.double(),
    "column": lambda kind: kind[:, None],
    "one-hot-float": lambda kind: torch.eye(3)[kind],
    "one-hot-boolean": lambda kind: torch.eye(3, dtype=torch.bool)[kind],
    "other-numbers": lambda kind: 2**53 + 1 - kind,  # float64 cannot tell the first two apart
    "rows": lambda kind: torch.stack([kind % 2, kind], dim=1),
    "float-rows": lambda kind: torch.stack([kind / 7.0, -kind / 3.0], dim=1),
    "strings": lambda kind: [f"label {label}" for label in kind.tolist()],
    "array": lambda kind: np.array([f"label {label}" for label in kind.tolist()]),
    "objects": lambda kind: np.array([f"label {k}" for k in kind.tolist()], dtype=object),
}


KINDS = {"node_feature": None, "node_label": "kind", "edge_label": "bond"}
BASE = RandomWalkKernel(2, node_feature="kind", edge_feature=None)


@identified(
    [
        WLSubtreeKernel(3, "kind", "bond", output="gram"),
        RandomWalkKernel(3, **KINDS),
        WLKernel(BASE, DiscreteRelabeling("kind", "bond"), 2),
        DeepGraphKernel(1, **KINDS),
    ]
)
def test_forms_of_labels(kernel: Any) -> None:
    """The last three forms also occur in batches; equal numbers of any type are one label."""
    graphs = [graph for graph in GRAPHS if graph.num_nodes]
    expected = kernel(graphs)
    for form, change in FORMS.items():
        others = [changed(g, kind=change(g.kind), bond=change(g.bond)) for g in graphs]
        close_sums(kernel(others), expected)
        close_sums(kernel(Batch.from_data_list(others)), expected)
        close_sums(torch.as_tensor(kernel.fit(others[:2]).transform(others[2:])), expected[2:, :2])
        if form in ("int32", "uint8", "float") and isinstance(kernel, WLSubtreeKernel):
            close_sums(kernel(graphs, others), expected)


def test_integer_rows_are_vectors_and_integers_labels() -> None:
    signs = [changed(g, x=(g.x > 0).double()) for g in GRAPHS[:3]]
    for dtype in (torch.int32, torch.int64, torch.uint8, torch.bool):
        rows = [changed(g, x=g.x.to(dtype), bond=g.bond.to(dtype)) for g in signs]
        for kernel in (RandomWalkKernel(edge_feature=name, dtype=F64) for name in (None, "bond")):
            close(kernel(rows), defined(kernel, signs))


def test_labels_that_are_almost_alike() -> None:
    """-0.0 equals 0, rows of different widths are different labels, large numbers stay apart."""
    edge = torch.tensor([[0], [1]])
    graphs = [Data(x=torch.tensor([[a], [1.0]]), edge_index=edge) for a in (0.0, -0.0)]
    assert WLSubtreeKernel(2)(graphs).tolist() == [[6, 6], [6, 6]]
    narrow, wide = (Data(x=torch.eye(width)[:3], edge_index=RING[:, :0]) for width in (3, 4))
    kernel = WLSubtreeKernel(0, output="gram").fit([narrow])
    assert kernel.transform([wide]).item() == 0
    assert WLSubtreeKernel(0)([ring(2**24 + k, torch.int64) for k in (0, 1)])[0, 1] == 0
    assert WLSubtreeKernel(0)([ring(6.0, torch.int64)]).item() == 9  # these are no vectors
    kinds = [Data(kind=torch.tensor([2**53 + k, -7]), edge_index=RING[:, :0]) for k in (0, 1)]
    assert RandomWalkKernel(1, node_feature="kind")(kinds).tolist() == [[2, 1], [1, 2]]


def test_types_that_differ() -> None:
    x, edges, eye = rings(1)[0].x.float(), RING.t() % 2, torch.eye(2)
    with pytest.raises(ValueError, match="combine='max'"):
        GeneralizedRelabeling(eye, eye, eye, combine="max")
    wide = GeneralizedRelabeling(eye, eye, torch.cat([eye, eye], 1), edge_feature="edge_attr")
    for dtype in (torch.int64, torch.float64, torch.float32):
        graph = ring(x=x, edge_attr=edges.to(dtype))
        double = ring(x=x.double(), edge_attr=edges.double())
        for relabel in ((eye, eye, eye), wide):
            kernel = WLKernel(RandomWalkKernel(2), relabel, 2)
            found, expected = kernel([graph]).double(), kernel([double])
            torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
            if dtype == torch.float32:  # in the type of the fitted graph
                for a, b in ((graph, double), (double, graph)):
                    value = torch.from_numpy(kernel.fit([a]).transform([b]))
                    assert value.dtype == a.x.dtype
                    torch.testing.assert_close(value.double(), expected, rtol=1e-5, atol=1e-6)
    one, kernel = Data(x=x[:1], edge_index=RING[:, :0]), WLKernel(RandomWalkKernel(2), wide, 2)
    graph = ring(x=x, edge_attr=edges.float())
    close(kernel([one, one]), kernel([one, graph])[:1, :1].expand(2, 2))  # no edges at all


def test_networkx() -> None:
    """An undirected edge leads both ways; graph attributes hold the numbers of a graph."""
    kernel = RandomWalkKernel(node_label=["kind", "name"], edge_feature=["length", "edge_attr"])
    undirected = [as_networkx(graph, nx.MultiGraph) for graph in GRAPHS]
    expected = [both_ways(graph, loops=False) for graph in GRAPHS]
    close(kernel(undirected[:2], expected), kernel(expected[:2], expected))
    rows, found = torch.rand(len(GRAPHS), 2).double(), list(map(as_networkx, GRAPHS))
    bonds = {"node_label": ["kind", "degree"], "edge_label": ["bond", "length"]}
    several = RandomWalkKernel(2, node_feature=["x", "kind_vector"], node_label="pair")
    subtrees, paths = WLSubtreeKernel(2, **bonds), ShortestPathKernel(node_label="name")
    for own in (kernel, several, subtrees, LabelSequenceKernel(2, **bonds), paths):
        close(own(found), own(GRAPHS))
    for graph, row in zip(found, rows.tolist(), strict=True):
        graph.graph["descriptors"] = row
    close(VectorKernel()(found), VectorKernel()([Data(descriptors=row) for row in rows]))
    assert WLSubtreeKernel(1, None)(nx.path_graph(3)).item() == 9 + 5


def test_what_is_read() -> None:
    """A data set's transform is applied, node_label=None reads edges alone, fits keep copies, and
    edges of a batch need not be sorted by graph.
    """
    bare = [Data(edge_index=g.edge_index, num_nodes=g.num_nodes) for g in GRAPHS]
    for own in (WLSubtreeKernel(2, None), ShortestPathKernel(node_label=None)):
        close(own(bare), defined(own, GRAPHS))

    def alike(data: Data) -> Data:
        return changed(data, kind=torch.zeros_like(data.kind))

    kernel = WLSubtreeKernel(3, "kind", "bond")
    expected = kernel([alike(g) for g in GRAPHS[:2]], GRAPHS[0])
    close(kernel(Stored(GRAPHS[:2], alike), GRAPHS[0]), expected)
    graph, listed = ring(), GRAPHS[:2]
    names = kernel.fit(listed).get_feature_names_out()
    listed.clear()
    assert np.array_equal(kernel.get_feature_names_out(), names)
    fitted = RandomWalkKernel(2).fit([graph])
    before = fitted.transform([ring()])
    graph.x.mul_(10)
    np.testing.assert_array_equal(fitted.transform([ring()]), before)
    batch = Batch.from_data_list(GRAPHS[:3])
    batch.edge_index, batch.edge_attr = batch.edge_index.flip(1), batch.edge_attr.flip(0)
    for kernel in (RandomWalkKernel(3), WLSubtreeKernel(2, edge_label="edge_attr")):
        close_sums(kernel(batch), kernel(GRAPHS[:3]))


def test_collections_that_are_read_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "GRAPHS_AT_A_TIME", 16)
    many, kinds = GRAPHS * 6, {"node_label": "kind", "output": "gram"}
    for kernel in (
        RandomWalkKernel(3),
        WLSubtreeKernel(2, normalize=True, output="gram"),
        WLSubtreeKernel(compare="minmax", **kinds),
        LabelSequenceKernel(**kinds),
        ShortestPathKernel(compare="minmax", **kinds),
    ):
        expected = torch.from_numpy(kernel.fit(GRAPHS).transform(GRAPHS)).repeat(6, 1)
        for form in (many, Batch.from_data_list(many)):
            close_sums(torch.from_numpy(kernel.transform(form)), expected)
        found = kernel.fit(many).transform(GRAPHS[:1])
        close_sums(torch.from_numpy(found), expected[: len(GRAPHS), :1].repeat(6, 1).t())
    broken = [*many[:38], changed(GRAPHS[0], x=GRAPHS[0].x * nan), GRAPHS[6]]
    with pytest.raises(ValueError, match="graph 38 has NaN"):
        RandomWalkKernel().fit(broken)


def test_small_and_large_values_and_one_vector_against_many() -> None:
    """Vectors are standardized over both collections, even if one of them is a single vector."""
    tiny = [ring(1e-10, torch.float32), ring(2e-10, torch.float32)]
    torch.testing.assert_close(RandomWalkKernel(1, normalize=True)(tiny), torch.ones(2, 2))
    assert RandomWalkKernel(5, dtype=F64)([ring(1e5, torch.float32)]).isfinite().all()
    rows = torch.rand(6, 3, generator=torch.Generator().manual_seed(0))
    graphs = [Data(descriptors=row) for row in rows]
    close(VectorKernel()(graphs[:1], graphs[1:]), VectorKernel()(graphs)[:1, 1:])
    with pytest.raises(ValueError, match="'descriptors' of graph 0 has 2 numbers: expected 3"):
        VectorKernel()(graphs, [Data(descriptors=torch.ones(2))])


@pytest.mark.usefixtures("threads")
def test_gradients_of_the_parameters_of_an_activation() -> None:
    scale = torch.tensor(2.0, dtype=F64, requires_grad=True)

    def activation(k_xy: Tensor, k_xx: Tensor, k_yy: Tensor) -> Tensor:
        return scale * k_xy

    kernels = [DeepGraphKernel(1, activation=activation, max_memory=m) for m in (1, 2**28)]
    slopes = [torch.autograd.grad(kernel(rings()).sum(), scale)[0] for kernel in kernels]
    torch.testing.assert_close(*slopes)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize(
    "kernel",
    [RandomWalkKernel(normalize=True), RandomWalkKernel(None, decay=0.01), DeepGraphKernel(1)],
)
def test_tangents_are_those_of_all_blocks(kernel: Any) -> None:
    """Tangents would be lost in other threads."""
    values, small = torch.rand(6, 3, 2, dtype=F64), clone(kernel).set_params(max_memory=1)

    def gram(values: Tensor) -> Tensor:
        return small([ring(x=rows) for rows in values])

    expected = torch.autograd.functional.jvp(gram, values, values.cos())[1]
    torch.testing.assert_close(torch.func.jvp(gram, (values,), (values.cos(),))[1], expected)


@pytest.mark.usefixtures("threads")
def test_modes_and_errors_with_threads() -> None:
    kernel, items = RandomWalkKernel(max_memory=1), [ring(x=g.x.float()) for g in rings()]
    expected = kernel(items)
    for mode in (torch.inference_mode(), torch.autocast("cpu", torch.bfloat16)):
        with mode:
            close(kernel(items), expected)
    assert torch.get_num_threads() == 2

    def activation(k_xy: Tensor, k_xx: Tensor, k_yy: Tensor) -> Tensor:
        if bool((k_xy > 1e3).any()):
            raise RuntimeError("too large")
        return k_xy

    many = [*rings(), ring(x=torch.full((3, 2), 100.0, dtype=F64))]
    with pytest.raises(RuntimeError, match="too large"):
        DeepGraphKernel(activation=activation, max_memory=1)(many)
    assert torch.get_num_threads() == 2


LABELS, NUMBERS = ring(x=torch.zeros(3).long()), ring(x=torch.zeros(3))
CODES = [ring(), ring(dtype=torch.float32), ring(6.0, torch.int64)]
ONE_HOT, SIX = (ring(x=torch.tensor([[number, 0]] * 3)) for number in (1, 6))
SPARSE = torch.eye(2).to_sparse()
HETERO = Batch.from_data_list([HeteroData(a={"x": torch.ones(2, 1)})])
UNSORTED = Batch(x=torch.ones(3, 1), edge_index=RING[:, :0], batch=torch.tensor([0, 1, 0]))
BOTH_CODES = Batch.from_data_list([ONE_HOT, ONE_HOT, SIX])
WALK, SUBTREES, STRING = RandomWalkKernel(), WLSubtreeKernel(), StringKernel()
PATHS = [nx.path_graph(2) for _ in range(3)]
for number, labels in ((1, {0: 1}), (2, {0: 1, 1: "one"})):
    nx.set_node_attributes(PATHS[number], labels, "x")
DIVERGING = inverse_polynomial(normalize=False)
SQUARE, OTHER, WIDE = torch.eye(3), torch.ones(4, 3), torch.ones(3, 4)
BONDS = GeneralizedRelabeling(SQUARE, SQUARE, SQUARE, edge_feature="bond")
TYPE_ERRORS: list[tuple[Any, Any, str]] = [
    *(
        (kernel, items, "expected a list of")
        for kernel in (WALK, STRING)
        for items in ({"a": 1}, pd.DataFrame({"text": ["a", "b"]}), iter([]))
    ),
    (WALK, HETERO, "not of HeteroData"),
    (SUBTREES, [ring(x=np.array([["C", "sp3"]] * 3))], "graph 0 has a ndarray as 'x'"),
    (SUBTREES, [ring(x=["C", None, "N"])], r"graph 0 has a list as 'x'.*strings"),
    *(
        (WLKernel(base), rings(), "base=")
        for base in (RandomWalkKernel, StringKernel(), WLKernel())
    ),
    (STRING, "a cat", r"not one string: \['a cat'\] is a list"),
    (STRING, np.array([["a"], ["b"]], dtype=object), r"not \(2, 1\): give texts\[:, 0\]"),
    (STRING, pd.Series(["a", np.nan, "b"]), "text 1 is a float"),
    (STRING, np.array([1, 2, 3]), "expected a collection of texts"),
    (STRING, np.array("abc"), "expected a"),
    (STRING, [b"ab"], "text 0 is a bytes"),
    (VectorKernel("x"), [ring(), None], "graph 1 is a NoneType: expected a graph"),
    (WLKernel(ShortestPathKernel(), (EYE, EYE, EYE)), rings(), "ShortestPathKernel counts labels"),
]
ALIKE = nx.DiGraph([("a", "b", {"label": "x"}), ("b", "a", {"label": "y"})])
nx.set_node_attributes(ALIKE, "C", "label")
SAME = {"node_label": "label", "edge_label": "label"}
VALUE_ERRORS: list[tuple[Any, Any, str]] = [
    (WLSubtreeKernel(0, **SAME), [ALIKE], "'label' is read of nodes and of edges"),
    (WLSubtreeKernel(0, node_label="num_nodes"), [ALIKE], "'num_nodes'"),
    (SUBTREES, [nx.Graph(), PATHS[0]], "graph 1 has no 'x': name another attribute, or node_la"),
    (SUBTREES, PATHS[1], "graph 0 has no 'x' at node 1"),
    (SUBTREES, PATHS[2], "graph 0 has 'x' of type int, str: expected strings, n"),
    (STRING, [vectors(3), vectors(3).flatten()], "text 1 is a tensor of shape"),
    (WALK, [ring(x=torch.ones(3, 1) * 1j)], "'x' of the graphs has complex numbers"),
    (RandomWalkKernel(50, 1e7, edge_feature=None), [ring()], "not finite in torch.float64"),
    (STRING, [[1, "a"]], "text 0 has tokens of type int, str"),
    (StringKernel(analyzer="word", tokenizer="split"), SENTENCES, "tokenizer='split'"),
    (WALK, [ring(), Data(x=torch.ones(2, 1), adj_t=SPARSE)], r"graph 1 .*adj_t"),
    (WALK, [ring(), Data(x=torch.ones(2, 1), edge_index=SPARSE)], r"graph 1 .* of shape .*sparse"),
    (WALK, UNSORTED, "not sorted"),
    (WALK, [ring(), ring().to("meta")], "graph 1 is on meta, graph 0 on cpu"),
    (WALK, Batch(x=torch.ones(3, 1)), "the batch has no edge_index"),
    (WALK, [LABELS, LABELS, NUMBERS], r"graph 2 .* labels of one type"),
    (WALK, CODES, "graph 2 has one column of integers or others than 0 and 1 in 'x'"),
    (WALK, [ring(), ring(x=torch.eye(3)[:, :1].bool())], "graph 1 has one column of integers or"),
    (WALK, [ring(x=torch.ones(3, 1, 1))], "one or two dimensions"),
    *(
        (
            WLSubtreeKernel(0, node_label="degree"),
            [Data(degree=torch.ones(2), edge_index=RING, **known)],
            "graph 0 has 2 rows of 'degree' for 3",
        )
        for known in ({"x": torch.ones(3, 1)}, {"pos": torch.ones(3, 2)}, {"num_nodes": 3})
    ),
    (VectorKernel("name"), [ring(name="C")], "'name' of graph 0 is no tensor of numbers"),
    (VectorKernel(lengths=iter([1.0])), GRAPHS, "lengths="),
    (VectorKernel(lengths=(), linear=False), GRAPHS, "expected at least one kernel"),
    (VectorKernel([]), GRAPHS, "expected at least one name"),
    (VectorKernel(), [], "expected at least one graph"),
    (VectorKernel("x"), [ring(), ring(nan)], "'x' of graph 1 is not finite"),
    (STRING, [vectors(3), vectors(3).to("meta")], "texts on several devices: "),
    (DeepGraphKernel(), BOTH_CODES, r"graph 2 .* 'x'"),
    (SUBTREES, [ring(2, torch.int64), ring()], r"graph 1 .*one type"),
    (SUBTREES, [ring(nan)], "graph 0"),
    (DeepGraphKernel(activation=DIVERGING), [ring(9.0)], r"needs K\(x, x\) < 2"),
    (DeepStringKernel(2, 1, 0.5, DIVERGING), [2 * vectors(4)], r"needs K\(x, x\) < 2"),
    (LabelSequenceKernel(edge_label="length_"), GRAPHS, "length_"),
    (LabelSequenceKernel(2, min_nodes=3), GRAPHS, "min_nodes=3: expected at most 2"),
    (WLKernel(relabel=DiscreteRelabeling("absent")), GRAPHS, "graph 0.*absent"),
    (WLKernel(relabel=(SQUARE, OTHER, SQUARE)), GRAPHS, "expected"),
    (WLKernel(relabel=(torch.ones(4, 4), OTHER, WIDE)), GRAPHS, "graph 0 has 3 node"),
    (WLKernel(relabel=(SQUARE, SQUARE, "V")), GRAPHS, "V must be a matrix"),
    (WLKernel(relabel=(OTHER, OTHER, SQUARE)), GRAPHS, "more than one iteration"),
    (WLKernel(relabel=BONDS), GRAPHS, "needs vectors"),
    (RandomWalkKernel(5), [ring(1e5, torch.float32)], r"not finite in torch\.float32"),
]


@pytest.mark.parametrize(
    ("error", "kernel", "items", "match"),
    [
        *((TypeError, *refused) for refused in TYPE_ERRORS),
        *((ValueError, *refused) for refused in VALUE_ERRORS),
    ],
)
def test_refused(error: type[Exception], kernel: Any, items: Any, match: str) -> None:
    for call in (kernel, kernel.fit_transform):
        with pytest.raises(error, match=match):
            call(items)


def test_nodes_that_one_attribute_alone_counts() -> None:
    """Only the relabelling's attribute, or only the base kernel's, shows isolated last nodes."""
    edge = torch.tensor([[0], [1]])
    graphs = [Data(z=torch.tensor(z), edge_index=edge) for z in ([6, 6, 1, 1], [6, 1, 6])]
    graphs[1].edge_index = edge[:, :0]
    for node in ({"node_feature": "z"}, {"node_feature": None}, {"node_label": "z"}):
        base = RandomWalkKernel(1, **{"node_feature": None, **node})
        named = WLKernel(base, DiscreteRelabeling("z"), num_iterations=1)
        close(named(graphs), WLSubtreeKernel(1, "z")(graphs))
    alike = WLKernel(RandomWalkKernel(1, node_feature="z"), DiscreteRelabeling(None), 1)
    close(alike(graphs), WLSubtreeKernel(1, None)([g.clone().update({"x": g.z}) for g in graphs]))
    vectors = [Data(f=torch.rand(n, 2, dtype=torch.float64), edge_index=edge) for n in (4, 3)]
    given = [Data(f=g.f, edge_index=edge, num_nodes=len(g.f)) for g in vectors]
    eye = [torch.eye(2, dtype=torch.float64)] * 3
    kernel = WLKernel(RandomWalkKernel(1, node_feature="f"), eye, num_iterations=1)
    close(kernel(vectors), kernel(given))


@pytest.mark.parametrize("kind", [ShortestPathKernel, LabelSequenceKernel, WLSubtreeKernel])
def test_no_more_graphs_are_counted_at_once_than_memory_allows(
    kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    graphs, numbers = rings(16), list[int]()
    occurrences = kind._occurrences

    def watched(self: Any, graphs: Any, complete: bool = False) -> Any:
        numbers.append(len(graphs))
        return occurrences(self, graphs, complete)

    monkeypatch.setattr(kind, "_occurrences", watched)
    expected = kind(node_label=None)(graphs)
    assert numbers == [16]
    close(kind(node_label=None, max_memory=1)(graphs), expected)
    assert numbers == [16] + [1] * 16
