"""``python -m benchmarks``: the commands, what each is for and how long it typically takes.

``python -m benchmarks report DIR`` shows again what any of them has written to a results folder.
"""

import json
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from benchmarks.harness.errors import InputError, as_input_error, exit_status

COMMANDS = {
    "molecules": ("networks, kernels, processes for molecules compared", "minutes a network"),
    "text_classification": ("classify texts by every encoder", "minutes to hours"),
    "language_model": ("language models and their presets", "an hour an epoch"),
    "question_retrieval": ("find similar questions", "minutes quick, hours in full"),
    "rationales": ("texts and molecules whose predictions name their reasons", "minutes"),
    "kernels": (
        "exact kernels beside GraKeL, random features beside them",
        "minutes; cep: an hour",
    ),
    "papers.activations": ("parity, charging, long memory by learned activations", "minutes"),
    "papers.lfp": ("states of subjects by recordings of many channels", "3 minutes; full: an hour"),
    "papers.explanations": ("how faithful explanations are", "minutes; cep: an hour"),
    "speed": ("time of layers and training; compare two results", "10 minutes"),
}


def main(words: Sequence[str] | None = None) -> int:
    """Prints the list of commands, or the report of a results folder."""
    word, *more = (sys.argv[1:] if words is None else words) or [""]
    if word == "report":
        return exit_status("benchmarks report", lambda: report(*more or ["."]))
    print("python -m benchmarks.NAME --help\npython -m benchmarks report DIR\n")
    for name, (purpose, duration) in COMMANDS.items():
        print(f"  {name:20} {purpose} ({duration})")
    return 0


def report(folder: str, *others: str) -> NoReturn:
    """Prints and writes the tables and pictures of what is finished in a results folder."""
    if others:
        raise InputError(f"report takes one folder, not {folder}, {', '.join(others)}")
    path = Path(folder, "configuration.json")
    with as_input_error():
        text = path.read_text(encoding="utf-8")
    try:
        module, *command = str(json.loads(text)["program"]).split()
    except (ValueError, KeyError, TypeError):
        module = ""
    if module.removeprefix("benchmarks.") not in COMMANDS:
        raise InputError(f"{path} is damaged or of another program")
    sys.argv[1:] = [*command, "--config", str(path), "--out", folder, "--report"]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
    raise SystemExit(0)


if __name__ == "__main__":
    sys.exit(main())
