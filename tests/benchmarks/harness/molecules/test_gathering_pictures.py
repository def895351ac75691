"""Predictions read for the pictures of a gathered report, and what its panels show."""

import math

import numpy
import pandas
import pytest

pytest.importorskip("lightning", reason="the benchmark needs the extra 'bench'")
pytest.importorskip("rdkit", reason="the benchmark's molecules need the extra 'mol'")

from benchmarks.harness.molecules.gathering import predictions
from benchmarks.harness.molecules.gathering.folders import FoundRun, find_results
from benchmarks.harness.molecules.gathering.pictures import curves, prediction_plot
from benchmarks.harness.molecules.gathering.predictions import Sample, read_test_predictions
from benchmarks.harness.molecules.gathering.sections import Row, Section, sections
from tests.benchmarks.harness.molecules.written_results import record, write_results


def write_predictions(path, y, prediction, target="logS", model="gine", seed=0, part="test"):
    """Writes a file of predictions; gives the run that it is of."""
    columns = {"model": model, "seed": seed, "part": part, "row": 2, "smiles": "C"}
    frame = pandas.DataFrame({**columns, "target": target, "y": y, "prediction": prediction})
    frame.to_csv(path, index=False)
    return FoundRun(record(model, seed, 1.0), [], (path.with_name("none.csv"), path))


def test_a_sample_is_drawn_from_all_pieces_and_the_error_is_of_all(tmp_path, monkeypatch):
    monkeypatch.setattr(predictions, "ROWS_AT_ONCE", 70)
    random = numpy.random.default_rng(1)
    y = random.normal(size=1000)
    run = write_predictions(tmp_path / "p.csv", y, y + random.normal(size=1000))
    everything = read_test_predictions(run).samples["logS"]
    thinned = read_test_predictions(run, most=100).samples["logS"]
    again = read_test_predictions(run, most=100).samples["logS"]
    error = everything.prediction - everything.y
    numpy.testing.assert_array_equal(numpy.sort(everything.y), numpy.sort(y))
    assert everything.number == thinned.number == 1000
    assert math.isclose(thinned.rmse, math.sqrt((error**2).mean()), rel_tol=1e-12)
    assert len(thinned.y) == 100
    pairs = set(zip(everything.y, everything.prediction, strict=True))
    drawn = set(zip(thinned.y, thinned.prediction, strict=True))
    assert len(drawn) == 100 and drawn < pairs
    numpy.testing.assert_array_equal(thinned.y, again.y)
    assert set(thinned.y) & set(y[:300]) and set(thinned.y) & set(y[-300:])


def test_rows_of_the_run_and_the_test_part_alone_are_read(tmp_path):
    run = write_predictions(tmp_path / "p.csv", [1.0, None, 3.0], [1.5, 2.5, 2.0], target="NA")
    others = (("wl", 0, "test"), ("gine", 1, "test"), ("gine", 0, "train"))
    frames = [pandas.read_csv(tmp_path / "p.csv", keep_default_na=False)]
    for model, seed, part in others:
        frames.append(frames[0].assign(model=model, seed=seed, part=part, target="other"))
    pandas.concat(frames).to_csv(tmp_path / "p.csv", index=False)
    found = read_test_predictions(run)
    assert found.targets == ["NA"]
    numpy.testing.assert_array_equal(found.samples["NA"].y, [1.0, 3.0])
    numpy.testing.assert_array_equal(found.samples["NA"].prediction, [1.5, 2.0])
    assert found.samples["NA"].rmse == pytest.approx(math.sqrt((0.25 + 1) / 2))


def test_targets_beyond_the_first_are_counted_only(tmp_path):
    names = [f"t{k}" for k in range(6)]
    run = write_predictions(tmp_path / "p.csv", range(6), range(6), target=names)
    found = read_test_predictions(run)
    assert found.targets == names
    assert list(found.samples) == names[:4]


def row(model, note=""):
    return Row(model, {}, [FoundRun(record(model, 0, 1.0), [], ())], ["a"], note)


def sample(y, prediction, number=None):
    y, prediction = numpy.array(y, float), numpy.array(prediction, float)
    rmse = math.sqrt(((y - prediction) ** 2).mean())
    return Sample(y, prediction, number or len(y), rmse)


def test_parity_panels_share_a_square_frame_and_say_what_is_outside():
    good, far = sample([0, 1, 2, 4], [0, 1, 2, 3]), sample([0, 1, 2, 4], [0, 1, 90, -50])
    rows = [row("gine"), row("wl", "hidden 8"), row("mean")]
    figure, shown = prediction_plot("rmse", rows, [[good, good], [far], []], "log$S$")
    assert shown == "predicted against measured values of the test part, log$S$"
    panels = [axes for axes in figure.axes if axes.axison]
    assert len(panels) == 2
    for axes in panels:
        assert axes.get_xlim() == axes.get_ylim() == panels[0].get_xlim()
        low, high = axes.get_xlim()
        assert -1.5 < low < 0 and 4 < high < 5.5
    assert panels[0].get_title() == "gine\nRMSE 0.500 ± 0.000"
    assert panels[1].get_title().startswith("wl (hidden 8)\nRMSE 51.")
    assert panels[1].get_title().endswith("\n2 beyond the frame")
    dots = panels[0].lines[0].get_xydata()
    numpy.testing.assert_array_equal(dots, [[0, 0], [1, 1], [2, 2], [4, 3]] * 2)


def test_many_points_become_counts_that_add_up():
    random = numpy.random.default_rng(0)
    y = random.normal(size=5000)
    figure, shown = prediction_plot("rmse", [row("wl")], [[sample(y, y, number=9000)]], "logS")
    assert shown.endswith(
        " (5,000 of 9,000 molecules a run, drawn at random); brighter: more of them"
    )
    (counts,) = figure.axes[0].collections
    assert counts.get_array().sum() == 5000


def test_classes_have_histograms_of_their_scores():
    y, scores = [0, 0, 0, 1, 1], [-2.0, -1.0, 0.0, 1.0, 2.0]
    figure, shown = prediction_plot("rocauc", [row("wl")], [[sample(y, scores)]], "active")
    assert shown == "predicted scores of the test part by class, active"
    zeros, ones = figure.axes[0].containers
    for bars, low, high in ((zeros, -2, 0), (ones, 1, 2)):
        taken = [bar for bar in bars if bar.get_height() > 0]
        assert sum(bar.get_height() for bar in taken) == pytest.approx(1)
        assert min(bar.get_x() for bar in taken) <= low + 1e-9
        assert max(bar.get_x() + bar.get_width() for bar in taken) >= high - 1e-9


def test_curves_are_named_as_the_rows(tmp_path):
    records = [record("gine", 0, 1.0), record("gine", 1, 1.2), record("mean", 0, 2.0, epochs=0)]
    write_results(tmp_path / "a", records)
    write_results(tmp_path / "b", [record("gine", 0, 1.4, num_parameters=3)], commit="1" * 40)
    (section,) = sections(find_results(tmp_path).folders)
    assert isinstance(section, Section)
    figure = curves(section, section.rows)
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [
        "gine (commit not recorded)",
        "mean",
        "gine (commit 1111111111)",
    ]
    lines = {line.get_label(): line for line in figure.axes[0].lines}
    drawn = lines["gine (commit not recorded)"].get_xydata()
    numpy.testing.assert_allclose(drawn, [[1, 1.75], [2, 1.25], [3, 0.75 + 1 / 3]])
    assert figure.axes[0].get_ylim() == (0, 3.0)  # twice the largest of 0.5, 0.75, ... 1.5
