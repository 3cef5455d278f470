"""Run all benchmarks, ``make bench``, or some of them: ``python -m benchmarks exhaustive explanation macs``.

Results go to ``benchmarks/results/`` as JSON and Markdown, with a plot of time against the number of distractors.
Run it with nothing else running: a second busy process slows everything several-fold, and not evenly.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks import features, memory, speed
from benchmarks.agreement import CASES

RESULTS = Path(__file__).parent / "results"
console = Console()


def main(parts: list[str]) -> None:
    RESULTS.mkdir(exist_ok=True)
    everything: dict[str, Any] = {
        "exhaustive": lambda: [speed.exhaustive(name) for name in speed.HEADS],
        "explanation": lambda: [speed.explanation(name) for name in speed.HEADS],
        "scaling": lambda: [speed.scaling(name, n) for name in ("vgg16", "resnet50_conv5_1") for n in speed.COUNTS],
        "macs": lambda: [speed.macs(name, n) for name in speed.HEADS for n in (1, 20)],
        "features": lambda: [features.measure(name) for name in ("vgg16", "resnet50")],
        "memory": lambda: [memory.measure(name, 20) for name in (*speed.HEADS, "resnet50_14x14")],
    }
    for name in parts or everything:
        console.rule(name)
        rows = everything[name]()
        for row in rows:
            console.print(row)
        (RESULTS / f"{name}.json").write_text(json.dumps(rows, indent=1) + "\n")
    write_tables()


def write_tables() -> None:
    """Turn the JSON into one page of tables and a plot."""
    found = {p.stem: json.loads(p.read_text()) for p in RESULTS.glob("*.json")}
    lines = ["# Benchmarks", "", "Made by `make bench` on two CPU cores; judge the ratios, not the seconds.", ""]
    if rows := found.get("exhaustive"):
        lines += ["## One edit, one distractor, every candidate, exact", ""]
        lines += ["| head | evaluator | authors' way, s | partswap, s | ratio | largest difference |"]
        lines += ["|---|---|---:|---:|---:|---:|"]
        lines += [
            f"| {r['head']} | {r['evaluator']} | {r['authors_seconds']:.2f} | {r['partswap_seconds']:.4f} "
            f"| {r['ratio']:,.1f} x | {r['largest_difference']:.0e} |"
            for r in rows
        ] + [""]
    if rows := found.get("explanation"):
        lines += ['## A whole explanation, 20 distractors, 4 edits, no prefilter, `screen="auto"`', ""]
        lines += ["The authors' seconds are extrapolated from 2,401 timed candidates of the 48,020 per edit "]
        lines += ["(768,320 for ViT-S/16's 14 x 14 grid).", ""]
        lines += [
            "| head | authors' way, s | with their 10 % prefilter, s | partswap, s | ratio | ratio to prefiltered "
        ]
        lines[-1] += "| partswap, beam 8, s |"
        lines += ["|---|---:|---:|---:|---:|---:|---:|"]
        lines += [
            f"| {r['head']} | {r['authors_seconds']:.0f} | {r['authors_prefiltered_seconds']:.1f} "
            f"| {r['partswap_seconds']:.3f} | {r['ratio']:,.0f} x | {r['ratio_prefiltered']:,.0f} x "
            f"| {r['partswap_beam8_seconds']:.2f} |"
            for r in rows
        ] + [""]
    if rows := found.get("macs"):
        lines += ["## Multiply-adds of one edit (features not counted)", ""]
        lines += [
            "The paper counts 318.8e9 for VGG-16 with one distractor, 59.6e9 after its prefilter, of which 30.8e9 "
        ]
        lines += ["are the features.", ""]
        lines += [
            "| head | distractors | authors' way | with 10 % prefilter | partswap, exhaustive | partswap, screened |"
        ]
        lines += ["|---|---:|---:|---:|---:|---:|"]
        keys = ("authors", "authors_prefiltered", "partswap_exhaustive", "partswap_screened")
        for r in rows:
            cells = " | ".join(f"{r[k] / 1e9:,.2f}e9" for k in keys)
            lines += [f"| {r['head']} | {r['distractors']} | {cells} |"]
        lines += [""]
    if rows := found.get("memory"):
        lines += ["## Peak extra memory, 20 distractors, default method (beam 8)", ""]
        lines += ["| head | extra memory, MB | seconds |", "|---|---:|---:|"]
        lines += [f"| {r['head']} | {r['extra_mb']:.0f} | {r['seconds']:.1f} |" for r in rows] + [""]
    if rows := found.get("features"):
        lines += ["## Features of a data set, from JPEG files to the cache on disk, against the bare forward pass", ""]
        lines += ["| model | precision | bare, s | streamed, s | ratio |", "|---|---|---:|---:|---:|"]
        lines += [
            f"| {r['model']} | {p} | {m['bare_seconds']:.1f} | {m['streamed_seconds']:.1f} | {m['ratio']:.2f} |"
            for r in rows
            for p, m in r.items()
            if isinstance(m, dict)
        ] + [""]
    if rows := found.get("scaling"):
        plot_scaling(rows)
        lines += ["## Time per edit against the number of distractors", "", "![time per edit](scaling.png)", ""]
    if rows := found.get("report"):
        lines += ["## A report of 1,000 explanations in Chromium, from disk", ""]
        lines += [
            "`python -m benchmarks.report`: median (and worst) of five visits and 65 changes of a filter, in ms.",
            "",
        ]
        lines += ["| report | MB | first paint | first cards | filter, script | filter, to the next frame |"]
        lines += ["|---|---:|---:|---:|---:|---:|"]
        lines += [
            f"| {r['report']} | {r['megabytes']:.1f} | {r['first_paint_ms']:.0f} ({r['first_paint_worst_ms']:.0f}) "
            f"| {r['first_cards_ms']:.0f} | {r['filter_script_ms']:.0f} ({r['filter_script_worst_ms']:.0f}) "
            f"| {r['filter_to_frame_ms']:.0f} ({r['filter_to_frame_worst_ms']:.0f}) |"
            for r in rows
        ] + [""]
    if rows := found.get("zoo"):
        lines += [
            "## The zoo",
            "",
            f"[docs/zoo.md](../../docs/zoo.md): {len(rows)} families of timm, cut and asked.",
            "",
        ]
    lines += explorer_table(found.get("explorer", []))
    lines += agreement_table(found)
    lines += study_table(found)
    (RESULTS / "README.md").write_text("\n".join(lines))


def study_table(found: dict[str, Any]) -> list[str]:
    rows = [found[name] for name in ("study_sqlite", "study_postgresql") if name in found]
    if not rows:
        return []
    title = [f"## A study: {rows[0]['participants']} participants at once", ""]
    title += ["`python -m benchmarks.study`: milliseconds from sending an answer to its being stored, on loopback.", ""]
    head = [
        "| database | answers | errors | answers per second | p50 | p95 | p99 |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    return (
        [*title, *head]
        + [
            f"| {r['database']} | {r['answers']:,} | {r['errors']} | {r['answers_per_second']} | {r['p50_ms']} "
            f"| {r['p95_ms']} | {r['p99_ms']} |"
            for r in rows
        ]
        + [""]
    )


def explorer_table(rows: list[dict[str, Any]]) -> list[str]:
    """From slider to picture."""
    if not rows:
        return []
    lines = ["## The explorer: from slider to picture, 20 distractors, cached features, in Chromium", ""]
    lines += ["`python -m benchmarks.explorer MODEL... --data cub --path FOLDER`. A slider is moved"]
    lines += ["anywhere from the usual settings after a pause, for half of which the hand is on it. The load is"]
    lines += ["that of the machine at the end: above 2, others took part of its two cores.", ""]
    lines += [
        "| model | threads | pause, ms | moves | median, ms | p95, ms | processor time, median, ms | p95, ms | load |"
    ]
    lines += ["|---|---:|---:|---:|---:|---:|---:|---:|---:|"]
    for r in rows:
        times = " | ".join(f"{r[key][part]:.0f}" for key in ("shown_ms", "server_cpu_ms") for part in ("median", "p95"))
        lines += [f"| {r['model']} | {r['threads']} | {r['pause_ms']:.0f} | {r['moves']} | {times} | {r['load']:.1f} |"]
    return [*lines, ""]


def agreement_table(found: dict[str, Any]) -> list[str]:
    """Real birds: does screening change the answer?"""
    rows = [(case, found[key]) for name, case in CASES.items() if (key := f"agreement_{name}") in found]
    if not rows:
        return []
    lines = ["## Screening against the exhaustive search, real birds", ""]
    lines += [
        "`python -m benchmarks.agreement CUB_FOLDER WEIGHTS_FOLDER`: VGG-16 features, a trained head narrow enough"
    ]
    lines += [
        'for the exhaustive search; `screen="auto"` as a full-size head gets it. Of the sets that flip, ours takes the',
        "most alike; screening sees fewer of them, so the last swap may have another donor of the same part.",
        "",
    ]
    lines += [
        "| objective | beam | head | distractors | explanations | same edits | same number | exhaustive | screened |",
        "|---|---:|---|---:|---:|---:|---:|---:|---:|",
    ]
    for case, r in rows:
        edits = f"{r['exhaustive']['edits']:.2f} | {r['screened']['edits']:.2f}"
        how = f"{case.settings['objective']} | {case.settings['beam']} | {case.head}, {case.width} | {case.distractors}"
        same = " | ".join(f"{100 * r[key]:.1f} %" for key in ("same_edits", "same_number"))
        lines += [f"| {how} | {r['explanations']} | {same} | {edits} |"]
    return [*lines, ""]


def plot_scaling(rows: list[dict[str, Any]]) -> None:
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(r["head"] for r in rows))
    figure = Figure(figsize=(4.2 * len(names), 3.4), layout="constrained")
    axes = figure.subplots(1, len(names), squeeze=False, sharey=True)[0]
    ways = {
        "authors_seconds": ("authors' way", "#98a2b3", "o"),
        "authors_prefiltered_seconds": ("authors' way, 10 % prefilter", "#667085", "s"),
        "exhaustive_seconds": ("partswap, exhaustive", "#00b4d8", "^"),
        "screened_seconds": ("partswap, screened", "#dc267f", "D"),
    }
    for axis, name in zip(axes, names, strict=True):
        mine = [r for r in rows if r["head"] == name]
        for key, (label, color, marker) in ways.items():
            points = [(r["distractors"], r[key]) for r in mine if r.get(key) is not None]
            axis.plot(*zip(*points, strict=True), label=label, color=color, marker=marker, markersize=4)
        axis.set(xscale="log", yscale="log", title=name, xlabel="distractors")
        axis.set_xticks([r["distractors"] for r in mine], [str(r["distractors"]) for r in mine])
        axis.minorticks_off()
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(alpha=0.25)
    axes[0].set_ylabel("seconds per edit")
    axes[-1].legend(fontsize=8, frameon=False)
    figure.savefig(RESULTS / "scaling.png", dpi=130)


if __name__ == "__main__":
    main(sys.argv[1:])
