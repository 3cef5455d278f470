"""Draw explanations in words, for docs/words.md and for reading many of them at once.

``python tools/words_images.py RUN WORDS OUT [--seed 0] [--count 20]`` takes explanations of a run of one method
at random by seed, says each in words and draws it to OUT; the name of a file says whether the sentence is true by the
table of attributes, false or withheld. ``OUT/sentences.md`` lists them.
"""

from __future__ import annotations

import argparse
import random
from dataclasses import replace
from pathlib import Path

from partswap.analysis.words import WordsEvaluation
from partswap.results.counterfactual import Pictures
from partswap.runs.context import open_run_context
from partswap.runs.folder import read_run
from partswap.words import open_words_writer


def main() -> None:
    """Draw them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("words", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=20)
    given = parser.parse_args()
    run = read_run(given.run)
    bench = open_run_context(run.config)
    judge = WordsEvaluation(bench, open_words_writer(given.words))
    (method,) = run.methods
    explained = list(run.explained(method).values())
    random.Random(given.seed).shuffle(explained)
    given.out.mkdir(parents=True, exist_ok=True)
    lines = []
    for number, (task, cf) in enumerate(explained[: given.count]):
        verdict = judge.verdict(task, cf)
        seen = [bench.explainer.preprocess.crop(bench.data.image(k)) for k in (task.query, *task.distractors)]
        kind = "true" if verdict.true else "false" if verdict.words.stated else "withheld"
        drawn = replace(cf, words=verdict.words, pictures=Pictures(seen[0], seen[1:]))
        drawn.plot(given.out / f"{number:02d}-{kind}.png")
        truth = bench.data.differing_parts(cf.query_class, cf.target)
        lines.append(f"{number}. {kind}: {verdict.words.sentence} (they differ in: {', '.join(sorted(truth or ()))})")
    (given.out / "sentences.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
