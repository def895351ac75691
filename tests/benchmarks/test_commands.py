"""What every command promises: fast help, one line for bad input, no mixed or lost results.

To test another command, add a row to :data:`COMMANDS` and its bad input to :data:`BAD_INPUT`.
"""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from torch.optim.optimizer import register_optimizer_step_pre_hook

pytest.importorskip("rdkit", reason="molecules need the extra 'mol'")

import pyg_kernels
from benchmarks.__main__ import COMMANDS as LISTED
from benchmarks.__main__ import main as list_commands
from benchmarks.harness import study
from tests.benchmarks.conftest import assert_refused, main_of, metrics_of, outcome, printed
from tests.benchmarks.small_data import write_askubuntu, write_corpus, write_own, write_trec

ROOT = Path(__file__).parents[2]
ACTIVATIONS = "benchmarks.papers.activations"
LFP = "benchmarks.papers.lfp"


@dataclass(frozen=True)
class Promise:
    program: str  # the module, and the word that chooses one of its commands if it has several
    small: str = ""  # options of a run that takes a second
    other: tuple[str, str] = ("", "")  # an option that changes the result, and the refusal
    keys: str = ""  # those of the first record of ``metrics.json``
    files: str = ""  # what is written beside the usual files
    prepare: Callable[[Path], object] = lambda folder: None  # writes the files ``IN/...``


def write_retrieval(folder: Path) -> None:
    write_askubuntu(folder / "askubuntu")
    write_askubuntu(folder / "titles", bodies=False)
    path = write_askubuntu(folder / "dissimilar") / "dev.txt"
    lines = [line.split("\t") for line in path.read_text().splitlines()]
    path.write_text("".join(f"{row[0]}\t\t{row[2]}\t{row[3]}\n" for row in lines))
    (folder / "pairs.csv").write_text("a,b,c\nx y,x,1\nz,x,yes\n")
    (folder / "twice.csv").write_text("a,b,c\nx y,z,1\nx y,z,0\nx y,z,1\n")


def write_molecules(folder: Path) -> None:
    """Writes molecules; every other one has a fluorine on a ring."""
    rows = [f"{'C' * k}{('O', 'c1ccc(F)cc1')[k % 2]},{k}\n" for k in range(1, 41)]
    good = "smiles,y\n" + "".join(rows)
    parted = "smiles,y,part\nCO,1,train\nCC,2,train\nCCO,3,valid\n"
    for name, text in {
        "molecules": good,
        "two": good.replace("\n", ",1\n").replace("y,1", "y,z"),
        "invalid": good + "C1CC,3\n",
        "three": "smiles,y\nCO,1\nCC,2\nCCO,3\n",
        "parted": parted,
        "one": parted.replace("2,train", "2,test"),
        "unmeasured": parted + "CCC,,test\n",
        "no-valid": parted.replace("valid", "test"),
        "unknown": parted + "CCC,4,date\n",
        "chembl": good,
    }.items():
        (folder / f"{name}.csv").write_text(text)


def write_texts(folder: Path) -> None:
    write_trec(folder / "trec")
    (folder / "empty").mkdir()
    (folder / "classless.csv").write_text("1,text\nno class,text\n")
    (folder / "one-class.csv").write_text("text,label\nÜber,y\nb,y\n")


def write_recordings(folder: Path) -> None:
    subject = np.array([None] * 6)
    np.savez(folder / "objects.npz", x=np.zeros((6, 2, 9)), y=[0, 1] * 3, subject=subject)


TRIAL = (
    "model seed device num_parameters learned diverged iterations accuracy accuracy_running "
    "seconds cpu_seconds"
)
TRAINED = "dataset split model seed num_parameters metric train valid test epochs seconds_per_epoch"
SEQUENCES = "--device cpu --centers 7 --batch-size 20 --models lstm --max-iterations 2"
COMMANDS = {
    "xor": Promise(
        f"{ACTIVATIONS} xor",
        "--device cpu --inputs 2 --centers 3 --l1 0 --seeds 0 --max-iterations 2",
        ("--learning-rate 0.5", "--learning-rate 0.003, not 0.5"),
        f"inputs centers l1 {TRIAL} solved_after squared_error variation variation_times_range",
        "functions-2-inputs.png",
    ),
    "charging": Promise(
        f"{ACTIVATIONS} charging",
        f"{SEQUENCES} --seeds 0",
        ("--centers 8", "--centers 7, not 8"),
        TRIAL,
        "accuracy.png",
    ),
    "long-term": Promise(
        f"{ACTIVATIONS} long-term",
        f"{SEQUENCES} --functions or --hidden 3",
        ("--clip 1", "--clip 0.0, not 1.0"),
        f"function length {TRIAL}",
    ),
    "lfp": Promise(
        LFP,
        "--device cpu --subjects 3 --trials 2 --folds 1 --hidden 2 --models cnn --epochs 1",
        ("--pooling max", "--pooling 'power', not 'max'"),
        f"{TRAINED} subject filters ngram hidden_size pooling layer_norm center_hz planted",
        "predictions.csv spectra.png wavelets.png",
        write_recordings,
    ),
    "explanations": Promise(
        "benchmarks.papers.explanations",
        "--device cpu --data IN/molecules.csv --smarts cF --hidden 3 --layers 1 --epochs 1 "
        "--molecules 2 --drawn 1 --methods random",
        ("--norm batch", "--norm 'none', not 'batch'"),
        "method molecules precision fid+ fid- change_without change_alone seconds chance",
        "explanations.html molecules.png planted.png",
    ),
    "retrieval": Promise(
        "benchmarks.question_retrieval",
        "--device cpu --data askubuntu --root IN/askubuntu --vectors none --embedding 3 --hidden 2 "
        "--models gru --pretraining no --epochs 1",
        ("--margin 2", "--margin 1.0, not 2.0"),
        "dataset split model seed num_parameters metric train valid test valid_MAP valid_P@1 "
        "valid_P@5 test_MAP test_P@1 test_P@5 epochs seconds_per_epoch encoder pretrained pooling "
        "fields hidden_size encoder_parameters",
        "baselines.json learning_curves.png predictions.csv",
        write_retrieval,
    ),
    "retrieval rank": Promise("benchmarks.question_retrieval rank"),
    "kernels": Promise(
        "benchmarks.kernels",
        "--device cpu --tasks wl-features --copies 1 --rounds 1",
        ("--bond-labels", "--bond-labels False, not True"),
        "task method size calls peak_mib seconds molecules columns entries copies_equal threads",
    ),
    "molecules": Promise(
        "benchmarks.molecules",
        "--device cpu --data IN/molecules.csv --model mean",
        ("--lr 0.5", "--lr None, not 0.5"),
        f"{TRAINED} seconds fitted_on subset covered",
        "predictions-molecules-random.png predictions.csv report.html",
        write_molecules,
    ),
    "molecules report": Promise("benchmarks.molecules report"),
    "texts": Promise(
        "benchmarks.text_classification",
        "--device cpu --root IN/trec --vectors none --embedding 3 --hidden 2 --models cnn "
        "--epochs 1",
        ("--lr 0.5", "--lr 0.003, not 0.5"),
        TRAINED,
        "confusion.png learning_curves.png predictions.csv",
        write_texts,
    ),
    "language": Promise(
        "benchmarks.language_model",
        "--device cpu --data IN/corpus --hidden 2 --models lstm-5m --epochs 1",
        ("--lr 0.5", "--lr None, not 0.5"),
        f"{TRAINED} hidden_size num_words training_words",
        "perplexity.png predictions.csv",
        lambda folder: write_corpus(folder / "corpus"),
    ),
    "language generate": Promise("benchmarks.language_model generate"),
    "language score": Promise("benchmarks.language_model score"),
    "texts predict": Promise("benchmarks.text_classification predict"),
    "rationales": Promise(
        "benchmarks.rationales",
        "--device cpu --data IN/own.csv --text-column body --target-column kind --evidence-column "
        "why --vectors none --embedding 2 --hidden 2 --models full --epochs 1",
        ("--clip 1", "--clip 5.0, not 1.0"),
        "dataset split model seed num_parameters metric train valid test train_full valid_full "
        "test_full train_rest valid_rest test_rest valid_share valid_precision test_share "
        "test_precision epochs seconds_per_epoch kind",
        "error_by_share.png learning_curves.png precision_by_share.png predictions.csv "
        "rationales.html",
        write_own,
    ),
    "rationales explain": Promise("benchmarks.rationales explain"),
    "speed": Promise("benchmarks.speed"),
    "speed scale": Promise(
        "benchmarks.speed scale",
        "--molecules 20 --model gin --steps 1 --workers 1 --threads 1",
        ("--steps 2", "--steps 1, not 2"),
        "molecules seconds featurise train",
        prepare=lambda folder: (folder / "cep-processed.csv").write_text("smiles,PCE\nno,1\n"),
    ),
    "speed compare": Promise(
        "benchmarks.speed compare", prepare=lambda folder: (folder / "none.json").write_text("{}")
    ),
}
STUDIES = [name for name, promise in COMMANDS.items() if promise.small]

ASKUBUNTU = "--data askubuntu --root IN"
CSV = "--data IN/molecules.csv"
PARTED = "--split-column part --data IN"
OWN = "--data IN/own.csv --text-column"
BAD_INPUT = {
    "xor": [
        ("--init-range 2 -2", "increasing numbers, got 2 -2"),
        ("--report", "holds no results"),
    ],
    "charging": [("--init identity --no-affine", "init='identity' with green='relu'")],
    "lfp": [
        ("--data nowhere.npz", "nowhere.npz: No such file"),
        ("--trials 1 --ngram 1", "ngram=1 with filters='syncnet'"),
        ("--subjects 3 --trials 1 --folds 4", "there are 3 subjects"),
        ("--data x.npz --trials 3", "--trials goes with made recordings"),
        ("--rate 500", "--rate goes with --data"),
        ("--trials 1 --hidden 65536", "parameters; at most"),
        ("--data IN/objects.npz", "objects.npz is no .npz file of the arrays x, y, subject"),
    ],
    "explanations": [
        ("--data m.csv", "--data m.csv needs --smarts PATTERN"),
        ("--sentences film", "--sentences goes with --text-root DIR"),
        ("--device tpu", "--device must be auto, cpu, cuda"),
        ("--data IN/molecules.csv --smarts [Si]", "[Si]"),
        ("--data IN/molecules.csv --smarts cF --run nowhere", "--run nowhere is no finished run"),
        ("--text-root IN/trec --sentences=", "must not be empty"),
    ],
    "retrieval": [
        ("--pretraining no --pretraining-epochs 2", "--pretraining-epochs goes with"),
        ("--root nowhere --leave-out", "--leave-out goes with --data askubuntu, not msrp"),
        ("--hidden 4 --parameters 9", "--hidden and --parameters exclude each other"),
        ("--data askubuntu --root nowhere", "text_tokenized.txt"),
        (f"{ASKUBUNTU}/askubuntu --parameters 9", "no width of 'rcnn' has at most 9 parameters"),
        ("--data nowhere.csv", "--data nowhere.csv: no such file, nor one of msrp, askubuntu"),
        ("--data FILE --columns a b", "--columns takes three names, not 2"),
        ("--data IN/pairs.csv", "no column named 'first'; its columns are 'a', 'b', 'c'"),
        ("--data IN/pairs.csv --columns a b c", "pairs.csv, line 3: the label must be 0 or 1"),
        ("--data IN/twice.csv --columns a b c", "'x y' and 'z' are labelled both 0 and 1"),
        ("--columns a b c", "--columns goes with --data FILE, not msrp"),
        (f"{ASKUBUNTU}/titles --fields title", "--fields goes with questions that have bodies"),
        (f"{ASKUBUNTU}/dissimilar", "no question of the valid part has a similar one"),
    ],
    "retrieval rank": [
        ("--checkpoint x --data x --out x.csv", "--among must be given"),
        ("--checkpoint FILE --data x --among x --out x.xlsx", "a table whose name ends in"),
    ],
    "kernels": [("--root data", "--root goes with --data cep")],
    "molecules": [
        ("--model transformer", "transformer"),
        ("--device cuda:99", "cuda:99"),
        ("--data nowhere.csv", "nowhere.csv: no such file"),
        ("--split-column part", "--split-column goes with a CSV"),
        ("--task classification", "--task goes with a CSV"),
        ("--shards s --data chembl cep", "--shards goes with one"),
        ("--data ogbg-molesol --split random", "--split random is none of ogbg-molesol"),
        (f"{CSV} --model no.such:Net", "cannot be imported"),
        (f"{CSV} --parameters 3 --model gine", "3 parameters"),
        (f"{CSV} --hidden 65536 --model gine", "parameters; at most"),
        (f"{PARTED}/parted.csv --split-seed 5", "--split-seed goes with"),
        (f"{CSV} --gp-molecules 9 --model gin", "--gp-molecules goes"),
        (f"{CSV} --root data", "--root goes with"),
        (f"{CSV} --model gated-walk --dropout 0.5", "dropout=0.5"),
        (f"{CSV} --model attentive-fp --norm layer", "norm"),
        (f"{CSV} --model gin-prelu --norm layer", "--model gin-prelu: "),
        (f"{CSV} --target-columns y --subset-column z", "z"),
        (f"{CSV} --target-columns y --subset-column y", "needs 0 and 1"),
        (f"{CSV} --subset-column y", "goes with --target-columns"),
        (f"{CSV} --split column", "--split-column"),
        ("--data IN/invalid.csv", "--skip-invalid"),
        ("--data IN/three.csv", "split leaves no molecules"),
        (f"{PARTED}/one.csv", "single molecule"),
        (f"{PARTED}/unmeasured.csv", "test part has no measured"),
        (f"{PARTED}/no-valid.csv", "to validate on"),
        (f"{PARTED}/parted.csv", "split leaves no molecules"),
        (f"{CSV} --model auto --parameters 1000", "auto has no --parameters"),
        (f"{PARTED}/unknown.csv", "1 of 4 values do not, the first 'date'"),
        (f"{CSV} --task classification", "= 2"),
        ("--data IN/two.csv --resample 1", "one target"),
        ("--data chembl IN/chembl.csv", "two are called chembl"),
    ],
    "molecules report": [("", "required: folder"), ("nowhere", "nowhere: no such folder")],
    "texts": [
        ("--models rcnn --ngram 2", "rcnn does not go with --ngram"),
        ("--models rcnn ran", "rcnn does not go with ran"),
        ("--models bi-lstm ran", "bi-lstm does not go with ran"),
        ("--decays 0.5 1", "must be a number from 0 to below 1, learned"),
        ("--preset lei2015", "--preset must be one of lei2017-sst, got 'lei2015'"),
        ("--phrases yes", "--phrases goes with sst-fine and sst-binary"),
        ("--root IN/trec --vectors FILE", "is not in GloVe's text format"),
        ("--data FILE --root x", "--root goes with trec, "),
        ("--data nowhere.csv", "--data nowhere.csv: no such file, nor one of trec, "),
        ("--data FILE IN IN/trec", "not 3"),
        ("--text-column a", "go with your own file, not trec"),
        ("--root IN/trec --vectors nowhere.txt", "--vectors nowhere.txt: no such file"),
        ("--root IN/trec --tune-vectors", "--tune-vectors goes with a file of word vectors"),
        ("--split-seed 1 --data sst-fine", "--split-seed goes with"),
        ("--data sst-fine --phrases yes --folds 2", "the official training part: no --folds"),
        ("--root IN/trec --parameters 3 --models lstm", "3 parameters"),
        ("--root IN/trec --hidden 65536 --models lstm", "parameters; at most"),
        ("--data IN/classless.csv", "line 2: the class must be"),
        ("--data IN/classless.csv", "needs the columns text and label, or --text-column"),
        ("--data IN/empty", "train.csv: No such file"),
        ("--data IN/empty IN/classless.csv", "a folder has both parts and stands alone"),
        ("--data IN/one-class.csv --label-column x", "no column named 'x'; its columns"),
        ("--data IN/one-class.csv", "have the class 'y' in column 'label'"),
        ("--data IN/one-class.csv --encoding utf-16", "it is not utf-16"),
    ],
    "language": [
        ("--preset rcnn-6m", "rcnn-6m: expected one of rcnn-5m, "),
        ("--data nowhere", "nowhere: no such folder or file"),
        ("--words", "--words goes with a text file of your own"),
        ("--encoding latin-1", "--encoding goes with --data"),
        ("--data IN/corpus --hidden 65536", "at most 500,000,000 are allowed (--hidden, "),
        ("--data IN/corpus --parameters 3", "at most 3 parameters"),
    ],
    "language generate": [("--checkpoint nowhere", "--checkpoint nowhere: no such file")],
    "language score": [("--checkpoint x", "--data or --text must be given")],
    "texts predict": [
        ("--text a --checkpoint nowhere.ckpt", "nowhere.ckpt: no such file"),
        ("--text a --checkpoint IN", "has neither best.ckpt nor runs"),
        ("--text a --checkpoint FILE", "is not a checkpoint of this module's networks"),
        ("--checkpoint x", "--data or --text must be given"),
        ("--data x.csv --checkpoint x", "--data needs --out FILE, --explain DIR"),
        ("--data x.csv --text a --checkpoint x", "--data and --text exclude each other"),
        ("--data FILE --out FILE --overwrite --checkpoint x", "--out is the file of --data"),
        ("--data x --out new/p.parquet.gz --checkpoint x", "expected a table whose name ends in"),
    ],
    "rationales": [
        ("--models title", "--models title: planted has dependent, independent"),
        ("--data molecules --models dependent", "atoms have no order"),
        ("--models svm --coherence 1", "goes with --models dependent or independent"),
        ("--data chembl --estimator gumbel", "--estimator goes with --data planted, beer, FILE"),
        ("--smarts cF", "--smarts goes with --data molecules, not planted"),
        ("--aspect smell", "--aspect goes with --data beer"),
        ("--evidence-column c", "--evidence-column goes with --data FILE, not planted"),
        ("--data chembl --root x", "chembl is inside RDKit"),
        ("--data nowhere.csv", "--data nowhere.csv: no such file, nor one of planted, beer, "),
        ("--data IN/own.csv", "no column named 'text'"),
        (f"{OWN} body --target-column why", "own.csv, line 2: no target"),
        (
            f"{OWN} body --target-column kind --task regression",
            "the target 'n' is no finite number",
        ),
        (
            f"{OWN} kind --target-column stars --evidence-column body",
            "text does not have the words",
        ),
        ("--data beer --root nowhere", "nowhere"),
        ("--data molecules --smarts ((", "SMARTS"),
        ("--data chembl --models full --hidden 65536", "parameters; at most"),
    ],
    "rationales explain": [("--checkpoint x --data y", "--out must be given")],
    "speed": [
        ("nonsense", "nonsense"),
        ("sequence --shapes 3x2", "expected TxBxD"),
        ("sequence --shapes 3x0x2", "expected TxBxD"),
        ("graph --shapes 3x2x2", "--shapes goes with scan, sequence, rkm, kbrn"),
        ("epoch --model mean", "--models mean: expected one of"),
        ("graph --out FILE", "File exists"),
    ],
    "speed scale": [
        ("--model nonsense", "--models nonsense: expected one of wl"),
        ("--dataset cep --root IN", "cep-processed.csv"),
    ],
    "speed compare": [
        ("a", "required: after"),
        ("a b", "a: No such file"),
        ("IN/none.json IN/none.json", "no result of benchmarks.speed"),
    ],
}


@pytest.fixture(scope="session")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inputs")
    for promise in COMMANDS.values():
        promise.prepare(folder)
    return folder


@pytest.fixture
def command(call_main, inputs: Path):
    """Calls a command by its name here, with a file in place of FILE and a folder of IN."""

    def call(name: str, words: str, *more: object) -> tuple[int, str, str]:
        module, *first = COMMANDS[name].program.split()
        given = [re.sub(r"^IN(?=/|$)", str(inputs), word) for word in words.split()]
        files = [__file__ if word == "FILE" else word for word in given]
        return call_main(main_of(module), *first, *files, *more)

    return call


@pytest.fixture(autouse=True)
def _of_a_second(assay, monkeypatch: pytest.MonkeyPatch) -> None:
    """Measures in this process, and makes runs small where no option does."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # restored, whatever commands set
    for name in ("benchmarks.kernels.measure", "benchmarks.speed.scale"):
        module = import_module(name)
        monkeypatch.setattr(module, "in_own_process", lambda work, *words: work(*words))
    libraries = import_module("benchmarks.kernels.libraries")
    monkeypatch.setattr(libraries, "load", lambda options: assay[:40])
    trials = import_module(f"{ACTIVATIONS}.trials")
    for kind in (trials.ChargingTrial, trials.LongTermTrial):
        monkeypatch.setattr(kind, "test_sequences", 100)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_says_what_it_is_for_and_one_process_is_enough(name, command, monkeypatch) -> None:
    program = COMMANDS[name].program
    out = printed(command(name, "--help"))
    assert f"usage: python -m {program}" in out
    assert "--config FILE" in out
    assert re.fullmatch(r"[A-Z].*\.", out.split("\n\n")[1])  # one line, before the options
    monkeypatch.setenv("WORLD_SIZE", "2")
    said = f"{program}: error: this runs in one process; start it without torchrun\n"
    assert command(name, "") == (2, "", said)


HELP = """
import contextlib, io, json, runpy, sys, time
began = time.process_time()
for module, *words in json.loads(sys.argv[1]):
    sys.argv[1:] = words
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
        runpy.run_module(module, run_name="__main__", alter_sys=True)
heavy = {"torch", "lightning", "matplotlib", "rdkit"} & set(sys.modules)
print(json.dumps([time.process_time() - began, sorted(heavy)]))
"""


def test_help_answers_without_torch() -> None:
    """All commands run in one process; each may take half a second of CPU time."""
    calls = [f"{promise.program} --help".split() for promise in COMMANDS.values()]
    command = [sys.executable, "-c", HELP, json.dumps(calls)]
    seconds, heavy = json.loads(subprocess.check_output(command, cwd=ROOT))
    assert heavy == []
    assert seconds < len(calls) * 0.5


@pytest.mark.parametrize(
    ("name", "words", "said"),
    [(name, *case) for name, cases in BAD_INPUT.items() for case in cases],
)
def test_bad_input_is_one_line(name, words, said, command, tmp_path: Path) -> None:
    out = ("--out", tmp_path / "out") if COMMANDS[name].small else ()
    result = command(name, words, *out)
    assert_refused(result, said)
    assert result[1] == ""
    module = COMMANDS[name].program.split()[0]
    assert result[2].startswith(module) and ": error: " in result[2]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", STUDIES)
def test_results_are_neither_mixed_nor_lost(name, command, tmp_path, monkeypatch, drawn) -> None:
    """Only the first run draws pictures."""
    promise, out = COMMANDS[name], tmp_path / "out"
    run = partial(command, name, promise.small, "--quiet", "--out", out)
    out.mkdir()
    (out / "thesis.tex").write_text("chapter 1")
    assert_refused(run("--overwrite"), "not results of this module")
    (out / "thesis.tex").unlink()

    table = printed(run())
    assert list(metrics_of(out)[0]) == promise.keys.split()
    kept = (out / "metrics.json").read_text()
    usual = {"configuration.json", "metrics.json", "runs", "table.md"}
    assert {path.name for path in out.iterdir()} == usual | set(promise.files.split())
    for path in out.glob("*.png"):
        assert path.read_bytes().startswith(b"\x89PNG")
    monkeypatch.setattr(study, "_png", lambda draw: b"")
    assert json.loads((out / "configuration.json").read_text())["program"] == promise.program

    other, refusal = promise.other
    assert_refused(run(), "already holds results; give --resume")
    assert_refused(run("--resume", *other.split()), f"was made with {refusal}")
    assert run("--resume") == (0, table, "")
    assert (out / "metrics.json").read_text() == kept
    config = ("--config", out / "configuration.json", "--out", out, "--quiet", "--report")
    assert command(name, "", *config) == (0, table, "")


# Options added to those of a small run: several epochs, of one cell or of several.
RESUMED = [
    ("xor", "--max-iterations 9 --seeds 0 1"),
    ("long-term", "--max-iterations 7 --models kbrn lstm"),
    ("lfp", "--epochs 3"),
    ("explanations", "--methods random walks --epochs 3"),
    ("retrieval", "--models rcnn --pretraining yes --pretraining-epochs 1 --epochs 4"),
    ("retrieval", "--models rcnn --pretraining yes --pretraining-epochs 4 --epochs 1"),
    ("molecules", "--model gine --epochs 3 --seeds 0 1 --hidden 4"),
    ("texts", "--epochs 3 --schedule exponential --logger csv"),
    ("language", "--models rcnn-5m --epochs 3"),
    ("language", "--models adam-rcnn-16m --lr 0.2 --epochs 3"),
    ("language", "--models awd-rkm-cifg --lr 3 --batch-size 16 --epochs 3"),
    ("rationales", "--models dependent full --epochs 3"),
]


@pytest.mark.parametrize(("name", "more"), RESUMED)
def test_an_interrupted_run_ends_as_one_go(name, more, command, tmp_path):
    steps: list[int] = []
    last = 0

    def step(*_: object) -> None:
        steps.append(1)
        if len(steps) == last:
            raise KeyboardInterrupt

    def run(out: str, *words: str) -> tuple[int, str, int]:
        steps.clear()
        small = f"{COMMANDS[name].small} {more}"
        status, _, err = command(name, small, "--quiet", "--out", tmp_path / out, *words)
        return status, err, len(steps)

    with register_optimizer_step_pre_hook(step):
        status, err, whole = run("whole")
        assert (status, err) == (0, "")
        last = 2 * whole // 3
        status, err, _ = run("out")
        assert (status, err.count("\n")) == (130, 2)
        assert "continue with the same command and --resume" in err
        last = 0
        assert outcome(tmp_path / "out") != outcome(tmp_path / "whole")
        (tmp_path / "out").rename(tmp_path / "moved")
        status, err, rest = run("moved", "--resume")
        assert (status, err) == (0, "")
        assert rest < 0.7 * whole
    assert outcome(tmp_path / "moved") == outcome(tmp_path / "whole")


def test_the_list_of_commands_is_that_of_the_modules(capsys) -> None:
    assert list_commands() == 0
    out = capsys.readouterr().out
    for name in LISTED:
        assert name in out
        package = ROOT / "benchmarks" / name.replace(".", "/")
        assert package.with_suffix(".py").exists() or (package / "__main__.py").exists()


def hide(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    """Makes imports of a package fail, as if it were not installed."""
    for name in {package, *sys.modules}:
        if f"{name}.".startswith(f"{package}."):
            monkeypatch.setitem(sys.modules, name, None)


def test_what_is_not_installed_is_named_or_not_missed(command, tmp_path, monkeypatch) -> None:
    """Commands, and the modules that read their data, are imported anew."""
    monkeypatch.setattr(pyg_kernels, "datasets", pyg_kernels.datasets)
    for name in list(sys.modules):
        if f"{name}.".startswith(("benchmarks.", "pyg_kernels.datasets.")):
            monkeypatch.delitem(sys.modules, name)
    out = ("--out", tmp_path / "out", "--quiet")
    with monkeypatch.context() as patch:
        hide(patch, "lightning")
        said = "error: lightning is not installed: pip install '.[bench]'\n"
        result = command("xor", COMMANDS["xor"].small, *out)
        assert result == (2, "", f"{ACTIVATIONS} xor: {said}")
    for package in ("rdkit", "pyg_kernels.chem"):
        hide(monkeypatch, package)
    with pytest.raises(ImportError, match=r"pyg_kernels\.chem"):
        import_module("pyg_kernels.datasets").MoleculeCSV  # noqa: B018
    monkeypatch.setattr(import_module("benchmarks.harness.study"), "_png", lambda draw: b"")
    printed(command("texts", COMMANDS["texts"].small, *out))
