"""Names and defaults of the comparison of rationales; nothing here imports torch."""

PROGRAM = "benchmarks.rationales"
OWN = "texts"  # of one's own
TEXTS = ("planted", "beer", OWN)
MOLECULES = ("molecules", "chembl")
QUESTIONS = ("askubuntu", "msrp")
DATASETS = (*TEXTS, *MOLECULES, *QUESTIONS)
NAMED = tuple(name for name in DATASETS if name != OWN)
ROOTS = {"planted": "data", "beer": "data/beer", "askubuntu": "data/askubuntu", "msrp": "data/msrp"}

DEPENDENT, INDEPENDENT, ATTENTION, SVM = "dependent", "independent", "attention", "svm"
FULL, TITLE = "full", "title"
SELECTING = (DEPENDENT, INDEPENDENT)  # that learn a rationale
MODELS = (DEPENDENT, INDEPENDENT, ATTENTION, SVM, FULL, TITLE)
MODELS_OF = {
    **dict.fromkeys(TEXTS, (DEPENDENT, INDEPENDENT, ATTENTION, SVM, FULL)),
    **dict.fromkeys(MOLECULES, (INDEPENDENT, FULL)),
    "askubuntu": (DEPENDENT, INDEPENDENT, FULL, TITLE),
    "msrp": (DEPENDENT, INDEPENDENT, FULL),
}
ASPECTS = ("appearance", "smell", "palate", "taste", "overall")

ESTIMATORS = ("reinforce", "gumbel", "hardkuma")
# Drawn selections of questions were not learned from: docs/rationales.rst has the figures.
ESTIMATOR = {name: "gumbel" if name in QUESTIONS else "reinforce" for name in DATASETS}
READOUTS = ("last", "mean", "max")

EPOCHS = {
    "planted": 10,
    "beer": 50,
    OWN: 20,
    "molecules": 40,
    "chembl": 100,
    "askubuntu": 30,
    "msrp": 6,
}
BATCH_SIZE = {
    "planted": 64,
    "beer": 256,
    OWN: 64,
    "molecules": 32,
    "chembl": 32,
    "askubuntu": 40,
    "msrp": 20,
}
LEARNING_RATE = {name: 0.003 if name in MOLECULES else 0.001 for name in DATASETS}
HIDDEN = {
    "planted": 64,
    "beer": 200,
    OWN: 100,
    "molecules": 32,
    "chembl": 32,
    "askubuntu": 200,
    "msrp": 100,
}
RATE = {
    "planted": 0.12,
    "beer": 0.13,
    OWN: 0.15,
    "molecules": 0.04,
    "chembl": 0.3,
    "askubuntu": 0.1,
    "msrp": 0.3,
}
COHERENCE = {
    "planted": 0.005,
    "beer": 0.01,
    OWN: 0.005,
    "molecules": 0.0,
    "chembl": 0.01,
    "askubuntu": 0.0,
    "msrp": 0.0,
}
ANNEAL = 0.4  # of all steps
LAYERS = {name: 2 if name in MOLECULES else 1 for name in DATASETS}
DROPOUT = {name: 0.0 if name in MOLECULES else 0.2 for name in DATASETS}
READOUT = "mean"
EMBEDDING = 100
SELECTION_SIZE = 30
NUM_SAMPLES = {name: 1 if name in QUESTIONS else 4 for name in DATASETS}
QUESTIONS_AROUND = (3, 6)
NEGATIVES = 20
MARGIN = 1.0
TEXT_COLUMN, TARGET_COLUMN = "text", "target"
EXAMPLES = 20
