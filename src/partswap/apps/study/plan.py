"""``partswap study plan``: makes a study from runs.

As in the paper: one distractor, the first edit, the same image pairs for every method, one classifier. Lessons are made
of the images that the runs explain (of the training split), questions of other images (of the test split).
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path

from PIL.Image import Image

from partswap.apps.study.assign import assign, check_blocks
from partswap.apps.study.folder import ClassPair, LearningPair, Lesson, Method, Question, Region, Study, write_study
from partswap.apps.study.render import ImageStore, box_of, view
from partswap.apps.study.secret import new_secret, random_from
from partswap.data.base import Dataset, open_dataset
from partswap.errors import SettingError
from partswap.grid import GridShape
from partswap.inputs.preprocess import Preprocess
from partswap.metrics import METRICS
from partswap.pixels.composite import highlighted
from partswap.runs.folder import Run, read_run
from partswap.runs.tasks import AnnotationCache
from partswap.search import METHODS
from partswap.utils.files import ensure_own_folder
from partswap.utils.progress import Track, no_progress, tracked

#: Ways to choose image pairs: any, or those where ours alone swaps a part for the same part.
SETUPS = ("random", "consistent")
CONSENT = """\
You are invited to take part in a study about learning from pictures. You will see pictures of two kinds of {noun}s, \
learn to tell them apart, and be asked which is which. It takes about {minutes} minutes.

Taking part is voluntary. You can stop at any time by closing the page. We store your answers and how long they took, \
and nothing that says who you are.

This text is a draft: whoever runs the study replaces it by the text of their ethics board."""


@dataclass(frozen=True)
class StudyConfig:
    """What is decided when a study is planned."""

    methods: tuple[str, ...] = ("partswap", "goyal", "scout")
    ours: str = "partswap"  #: whose Same-KP must be above the others' for `consistent`
    setups: tuple[str, ...] = ("random",)
    pairs: int | None = None  #: pairs of classes; all there are by default
    participants: int = 25
    blocks: int = 6  #: pairs of classes that one participant sees
    learning: int = 10  #: image pairs of a lesson
    questions: int = 10  #: of a test, before and after
    test_split: str = "test"
    title: str = "Which is which?"
    noun: str = "bird"
    consent: str | None = None
    contact: str = ""
    return_url: str | None = None
    least_seconds: float = 2.0
    attention: int = 0
    seed: int = 0  #: chooses images and pairs of classes; orders and names follow from the study's secret

    def __post_init__(self) -> None:
        for name in ("participants", "blocks", "learning"):
            if getattr(self, name) < 1:
                raise SettingError(f"{name} is {getattr(self, name)}.", "Use 1 or more.")
        if self.questions < 2 or self.questions % 2:
            raise SettingError(f"questions is {self.questions}.", "Use an even number: half of each class.")
        if self.pairs is not None and self.pairs < 1:
            raise SettingError(f"pairs is {self.pairs}.", "Use 1 or more.")
        if self.attention < 0 or self.least_seconds < 0:
            raise SettingError("attention checks and seconds cannot be negative.", "Use 0 or more.")
        for setup in self.setups:
            if setup not in SETUPS:
                raise SettingError(f"there is no setup {setup!r}.", f"Use {' or '.join(SETUPS)}.")
        if not self.setups or not self.methods:
            raise SettingError("a study needs a setup and a method.", "Name at least one of each.")
        if "consistent" in self.setups and self.ours not in self.methods:
            raise SettingError(f"{self.ours!r} is not among the methods.", "Name it, or another with --ours.")
        if self.return_url is not None and not self.return_url.startswith(("https://", "http://")):
            raise SettingError(f"{self.return_url!r} is no address.", "Let it begin with https://.")


@dataclass
class ImagePair:
    """A query and a distractor, with the cells that each method swaps first, and whether they show the same part."""

    query: int
    distractor: int
    cells: dict[str, tuple[int, int]] = field(default_factory=dict)
    same: dict[str, float | None] = field(default_factory=dict)

    def only_ours(self, ours: str) -> bool:
        """Tell whether ours alone swaps a part for the same part."""
        mine = self.same[ours]
        others = [score for method, score in self.same.items() if method != ours]
        return mine is not None and all(other is not None and mine > other for other in others)


def plan_study(
    runs: Sequence[str | Path], out: Path, choices: StudyConfig, *, track: Track = no_progress
) -> tuple[Study, dict[str, int]]:
    """Make a study in the folder `out`; returns it, and how many pairs of classes each setup has."""
    ensure_own_folder(out, "study", [], ["images"])
    opened = [read_run(folder) for folder in runs]
    _check_alike(opened, choices)
    first = opened[0]
    data, preprocess, grid = first.open_data(), first.open_preprocess(), GridShape(*first.record["grid"])
    if choices.test_split == first.config.split:
        raise SettingError(
            f"the runs explain the images of {first.config.split!r}, which the tests are to be made of.",
            "Run on other images (--split train): nobody is to be tested on what they learned from.",
        )
    config = first.config
    tests = open_dataset(config.data, config.path, choices.test_split, **config.options)
    found = _collect(
        opened, choices, AnnotationCache(data, preprocess, grid) if "consistent" in choices.setups else None, track
    )
    rng = random.Random(f"{choices.seed}/choice")
    chosen = _choose(found, tests, choices, rng)
    counts = {setup: sum(setup in lessons for lessons in chosen.values()) for setup in choices.setups}
    for setup, count in counts.items():
        if not count:
            raise SettingError(
                f"no pair of classes has {choices.learning} image pairs for the setup {setup!r}.",
                "Ask for fewer (--learning), or add runs with another --seed: each draws other distractors.",
            )
    check_blocks(choices.blocks, len(chosen))
    album = ImageStore(out)
    pairs, lessons = _draw(chosen, data, tests, preprocess, grid, choices, album, rng, track)
    album.close()
    minutes = max(1, round(choices.blocks * (2 * choices.questions * 4 + choices.learning * 6) / 60))
    methods = tuple(Method(name=name, title=METHODS.get(name).title) for name in choices.methods)
    secret = new_secret()
    study = Study(
        title=choices.title, noun=choices.noun, contact=choices.contact, return_url=choices.return_url,
        consent=choices.consent or CONSENT.format(noun=choices.noun, minutes=minutes), seed=choices.seed, secret=secret,
        methods=methods, setups=choices.setups, pairs=tuple(pairs),
        lessons=tuple(lessons), least_seconds=choices.least_seconds, attention=choices.attention,
        slots=assign(lessons, choices.participants, choices.blocks, random_from(secret, "assignment")),
        source={
            "runs": [str(run.folder) for run in opened], "data": config.data, "split": config.split,
            "test_split": choices.test_split, "model": config.model, "fingerprints": dict(first.record["fingerprints"]),
        },
    )  # fmt: skip
    write_study(out, study)
    return study, counts


def _check_alike(runs: Sequence[Run], choices: StudyConfig) -> None:
    """Raise an error unless runs are whole and explain the same images with the same classifier, cut in one place."""
    if not runs:
        raise SettingError("a study is made from runs, and none is named.", "Name their folders.")
    for run in runs:
        if not run.complete:
            raise SettingError(f"the run in {run.folder} is not finished.", "Finish it with the command that began it.")
        for what, mine, theirs in (
            ("images", run.record["fingerprints"]["data"], runs[0].record["fingerprints"]["data"]),
            ("classifier", run.record["fingerprints"].get("model"), runs[0].record["fingerprints"].get("model")),
            ("layer", run.record["grid"], runs[0].record["grid"]),
        ):
            if mine != theirs:
                raise SettingError(
                    f"{run.folder} and {runs[0].folder} were made with another {what}.",
                    "Methods are compared on the same images, with one classifier.",
                )
    for method in choices.methods:
        if not any(method in run.methods for run in runs):
            raise SettingError(f"no run explains with {method!r}.", "Run it, or leave it out (--method).")


def _collect(
    runs: Sequence[Run], choices: StudyConfig, facts: AnnotationCache | None, track: Track
) -> dict[tuple[int, int], list[ImagePair]]:
    """Return, for every pair of classes, the image pairs that every method explains with an edit."""
    same_kp = METRICS.get("same_kp")()
    known: dict[tuple[int, int, int, int], ImagePair] = {}
    for method in choices.methods:
        explained = [one for run in runs if method in run.methods for one in run.explained(method).values()]
        for task, cf in tracked(explained, f"first edits of {method}", track):
            if cf.distractors != 1:
                raise SettingError(
                    f"{method!r} was given {cf.distractors} distractors.",
                    "As in the paper every method sees one: run with --distractors 1.",
                )
            if not cf.edits:
                continue
            key = (cf.query_class, cf.target, task.query, task.distractors[0])
            pair = known.setdefault(key, ImagePair(task.query, task.distractors[0]))
            if method in pair.cells:
                continue  # two runs drew the same distractor
            edit = cf.edits[0]
            pair.cells[method] = edit.query_cell, edit.image_cell
            if facts is not None:
                pair.same[method] = same_kp.first(cf, facts.evidence(task, cf.query_class))
    found: dict[tuple[int, int], list[ImagePair]] = {}
    for (query_class, target, _, _), pair in sorted(known.items()):
        if len(pair.cells) == len(choices.methods):
            found.setdefault((query_class, target), []).append(pair)
    return found


#: Image pairs of the lessons of a pair of classes, by setup.
Chosen = dict[str, list[ImagePair]]


def _choose(
    found: Mapping[tuple[int, int], list[ImagePair]], tests: Dataset, choices: StudyConfig, rng: random.Random
) -> dict[tuple[int, int], Chosen]:
    """Return the pairs of classes and their lessons' image pairs; of the two directions of a pair one is taken."""
    labels = tests.labels().tolist()
    usable: dict[tuple[int, int], Chosen] = {}
    most = max((min(labels.count(c) for c in classes) for classes in found), default=0)
    if found and most < choices.questions // 2:
        raise SettingError(
            f"{choices.test_split!r} has {most} images of a class, and a test needs {choices.questions // 2}.",
            "Ask fewer questions (--questions), or use more images.",
        )
    for classes, pairs in found.items():
        if min(labels.count(c) for c in classes) < choices.questions // 2:
            continue
        fitting = {
            "random": pairs,
            "consistent": [p for p in pairs if "consistent" in choices.setups and p.only_ours(choices.ours)],
        }
        lessons = {
            setup: rng.sample(fitting[setup], choices.learning)
            for setup in choices.setups
            if len(fitting[setup]) >= choices.learning
        }
        other = usable.get(classes[::-1])
        if lessons and (other is None or len(lessons) > len(other)):
            usable.pop(classes[::-1], None)
            usable[classes] = lessons
    if choices.pairs is not None and choices.pairs > len(usable):
        raise SettingError(
            f"{choices.pairs} pairs of classes were asked for, and {len(usable)} have {choices.learning} image pairs.",
            "Ask for fewer (--pairs, --learning), or add runs with another --seed.",
        )
    # Pairs that have all setups first: they are compared within pairs.
    order = rng.sample(sorted(usable), len(usable))
    order.sort(key=lambda classes: -len(usable[classes]))
    return {classes: usable[classes] for classes in order[: choices.pairs]}


def _draw(
    chosen: Mapping[tuple[int, int], Chosen],
    data: Dataset,
    tests: Dataset,
    preprocess: Preprocess,
    grid: GridShape,
    choices: StudyConfig,
    album: ImageStore,
    rng: random.Random,
    track: Track,
) -> tuple[list[ClassPair], list[Lesson]]:
    pairs: list[ClassPair] = []
    lessons: list[Lesson] = []
    by_class: dict[int, list[int]] = {}
    for index, label in enumerate(tests.labels().tolist()):
        by_class.setdefault(label, []).append(index)

    @lru_cache(maxsize=64)  # the methods take turns with the images of a pair of classes
    def seen(index: int) -> Image:
        return view(data.image(index), preprocess)

    @cache
    def region(index: int, cell: int) -> Region:
        box = box_of(cell, grid)
        return Region(image=album.add(highlighted(seen(index), box), "learning"), box=box)

    for number, (classes, by_setup) in enumerate(tracked(chosen.items(), "pictures", track)):
        questions = [
            Question(image=album.add(view(tests.image(index), preprocess), "question"), second=bool(side))
            for side, which in enumerate(classes)
            for index in rng.sample(by_class[which], choices.questions // 2)
        ]
        first, second = (data.classes[c] for c in classes)
        pairs.append(ClassPair(first=first, second=second, questions=tuple(questions)))
        for setup, images in by_setup.items():
            for method in choices.methods:
                learning = [
                    LearningPair(
                        query=region(pair.query, pair.cells[method][0]),
                        distractor=region(pair.distractor, pair.cells[method][1]),
                    )
                    for pair in images
                ]
                lessons.append(Lesson(pair=number, method=method, setup=setup, learning=tuple(learning)))
    return pairs, lessons
