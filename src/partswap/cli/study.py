"""``partswap study ...``: teach people with counterfactuals, in the browser, and see what they learned."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from partswap.cli.options import Seed, output_file, output_folder, say
from partswap.errors import MissingDependencyError, PartswapError, SettingError
from partswap.utils.progress import bars

if TYPE_CHECKING:
    from partswap.apps.study.server import StudyState

app = typer.Typer(help="Teach people with counterfactuals, and see what they learned.", no_args_is_help=True)

Folder = Annotated[Path, typer.Argument(help="Folder of the study.")]
DatabaseUrl = Annotated[
    str | None,
    typer.Option("--database", envvar="PARTSWAP_STUDY_DATABASE", help="postgresql://..., or SQLite beside the study."),
]


@app.callback()
def _group() -> None:
    """Teach people with counterfactuals, and see what they learned."""
    try:
        import alembic  # noqa: F401
        import argon2  # noqa: F401
        import fastapi  # noqa: F401
        import httpx  # noqa: F401
        import sqlalchemy  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise MissingDependencyError(f"a study needs {error.name}.", "Install partswap[study].") from error


@app.command("plan")
def plan(
    runs: Annotated[list[Path], typer.Argument(help="Folders of runs: training images, one distractor.")],
    out: Annotated[Path, output_folder("Folder of the study.")],
    methods: Annotated[list[str] | None, typer.Option("--method", help="Which; all of the runs by default.")] = None,
    setups: Annotated[
        list[str] | None,
        typer.Option("--setup", help="random, or consistent (only ours swaps like for like); repeat."),
    ] = None,
    ours: Annotated[str, typer.Option(help="Whose Same-KP is above the others' in consistent.")] = "partswap",
    pairs: Annotated[int | None, typer.Option(min=1, help="Pairs of classes; all there are by default.")] = None,
    participants: Annotated[int, typer.Option(min=1, help="How many places there are.")] = 25,
    blocks: Annotated[int, typer.Option(min=1, help="Pairs of classes that one participant sees.")] = 6,
    learning: Annotated[int, typer.Option(min=1, help="Image pairs to learn from.")] = 10,
    questions: Annotated[int, typer.Option(min=1, help="Test pictures, before and after.")] = 10,
    test_split: Annotated[str, typer.Option(help="Images of the tests.")] = "test",
    attention: Annotated[int, typer.Option(min=0, help="Attention checks per participant.")] = 1,
    least_seconds: Annotated[float, typer.Option(help="A learning pair is shown at least so long.")] = 2.0,
    title: Annotated[str, typer.Option(help="Title of the pages.")] = "Which is which?",
    noun: Annotated[str, typer.Option(help="What the pictures show.")] = "bird",
    consent: Annotated[Path | None, typer.Option(help="Text file: what people agree to.")] = None,
    contact: Annotated[str, typer.Option(help="Whom people can write to.")] = "",
    return_url: Annotated[
        str | None, typer.Option(help="Where the last page leads; {code} is the completion code.")
    ] = None,
    seed: Seed = 0,
) -> None:
    """Make a study from runs: lessons, tests, and who takes which."""
    from partswap.apps.study.plan import StudyConfig, plan_study
    from partswap.apps.study.power import power_of
    from partswap.apps.study.preview import write_preview
    from partswap.runs.folder import read_run

    if consent is not None and not consent.is_file():
        raise SettingError(f"there is no file {consent}.", "Give the text of the consent page.")
    names = methods or list(dict.fromkeys(name for folder in runs for name in read_run(folder).methods))
    names.sort(key=lambda name: name != ours)  # ours first: it is held against the others
    text = None if consent is None else consent.read_text("utf-8").strip()
    choices = StudyConfig(
        tuple(names), ours, tuple(setups or ("random",)), pairs, participants, blocks, learning, questions, test_split,
        title, noun, text, contact, return_url, least_seconds, attention, seed,
    )  # fmt: skip
    study, counts = plan_study(runs, out, choices, track=bars)
    power = power_of(participants, blocks, questions, len(study.methods) * len(study.setups), len(study.pairs))
    preview = write_preview(out, study, power)
    for setup, count in counts.items():
        say(f"{setup}: {count} pairs of classes")
    say(power.sentence())
    if consent is None:
        say("The consent text is a draft: plan with --consent FILE before you recruit anyone.")
    say(f"made {out}; look at {preview}, then: partswap study serve {out}")


@app.command("serve")
def serve(
    folder: Folder,
    database: DatabaseUrl = None,
    host: Annotated[str, typer.Option(help="Address to listen at; this machine only by default.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen at.")] = 8000,
    links: Annotated[int, typer.Option(min=0, help="Make so many personal links and print them.")] = 0,
    open_places: Annotated[
        int, typer.Option("--open", min=0, help="Let so many people in by the open link /join; 0: personal links only.")
    ] = 0,
    id_name: Annotated[str, typer.Option(help="Name of the person's id in the open link; '': none.")] = "PROLIFIC_PID",
    address: Annotated[str | None, typer.Option(help="Address that participants use (https://...).")] = None,
    admin_password: Annotated[
        str | None,
        typer.Option(envvar="PARTSWAP_STUDY_PASSWORD", help="Of /admin; one is made up and shown if there is none."),
    ] = None,
    behind_proxy: Annotated[
        bool, typer.Option(help="A proxy on this machine ends TLS and passes addresses on.")
    ] = False,
    simulate: Annotated[
        int,
        typer.Option(min=0, help="Let so many simulated participants take the study, analyse what they did, and end."),
    ] = 0,
    trial: Annotated[
        int, typer.Option("--try", min=0, help="Go through the study as participant number N does; nothing is stored.")
    ] = 0,
    noise: Annotated[float, typer.Option(help="Noise of simulated comparisons, in cosine.")] = 0.01,
    lapse: Annotated[float, typer.Option(help="How often simulated participants do not look.")] = 0.05,
    seed: Seed = 0,
) -> None:
    """Let people take part, in the browser."""
    from partswap.apps.study.admin import set_password
    from partswap.apps.study.server import open_site
    from partswap.apps.study.serving import check_free
    from partswap.apps.study.serving import serve as run

    if simulate:
        _simulate(folder, database, simulate, noise, lapse, seed)
        return
    check_free(host, port)
    if trial:
        _try(folder, trial, host, port)
        return
    name = "localhost" if host in ("0.0.0.0", "::") else f"[{host}]" if ":" in host else host
    public = (address or f"http://{name}:{port}").rstrip("/")
    site = open_site(folder, database, open_places=open_places, id_name=id_name, address=public)
    if site.study.secret is None:
        say("planned by an earlier partswap: who knows its code and the seed can work the answers out from the orders")
    new_password = set_password(site.database, admin_password)
    if new_password is not None:
        say(f"password of {public}/admin, shown this once: {new_password}")
    _print_links(site, public, links, open_places, id_name)
    say(f"serving {folder} at {public} (stop with Ctrl-C)")
    run(site, host, port, behind_proxy=behind_proxy)


def _print_links(site: StudyState, public: str, links: int, open_places: int, id_name: str) -> None:
    for _ in range(links):
        say(f"{public}/s/{site.database.add()}")
    if open_places:
        room = len(site.study.slots) - sum(not row["open_link"] for row in site.database.everyone())
        if room < open_places:
            say(f"the study has room for {room} by the open link, not {open_places}: plan more --participants")
        say(f"open link, {min(open_places, room)} places: {public}/join{f'?{id_name}=...' if id_name else ''}")
    elif not links:
        say(f"no links yet: make some at {public}/admin, or with --links N")


def _try(folder: Path, number: int, host: str, port: int) -> None:
    """Serve one trial, beside whatever is stored; the server wants a database, and gets one that is thrown away."""
    from tempfile import TemporaryDirectory

    from partswap.apps.study.server import open_site
    from partswap.apps.study.serving import serve as run

    with TemporaryDirectory() as temporary:
        site = open_site(folder, f"sqlite:///{Path(temporary) / 'nothing.db'}")
        places = len(site.study.slots)
        try:
            if not 1 <= number <= places:
                raise SettingError(f"there is no participant {number}.", f"Try a number from 1 to {places}.")
            name = "localhost" if host == "0.0.0.0" else host
            say(f"as participant {number} of {places}: http://{name}:{port}/s/{site.trials.add(number - 1)}")
            say("nothing is stored (stop with Ctrl-C)")
            run(site, host, port)
        finally:
            site.database.close()


def _simulate(folder: Path, database: str | None, count: int, noise: float, lapse: float, seed: int) -> None:
    import asyncio

    from partswap.apps.study.server import open_site
    from partswap.apps.study.serving import served
    from partswap.apps.study.simulate import (
        NearestExampleLearner,
        RegionFeatures,
        SimulationSettings,
        run_simulated_participants,
    )

    if database is None:  # one of their own, made anew every time
        for old in folder.glob("simulated.db*"):
            old.unlink()
        database = f"sqlite:///{(folder / 'simulated.db').absolute()}"
    site = open_site(folder, database)
    study = site.study
    if count > len(study.slots):
        raise SettingError(
            f"the study has {len(study.slots)} places, and {count} are to take part.", "Plan more participants."
        )
    if any(not row["simulated"] for row in site.database.everyone()):
        raise SettingError("people have taken part in this database.", "Simulate with another one (--database).")
    # Nobody waits for them, and they do not get tired.
    site.study, site.answering = study.model_copy(update={"least_seconds": 0.0}), 1000.0
    eye = RegionFeatures()
    learners = [NearestExampleLearner(eye) for _ in range(count)]
    tokens = [site.database.add(simulated=True) for _ in range(count)]
    with served(site) as base:
        traffic = asyncio.run(
            run_simulated_participants(
                base, tokens, learners, SimulationSettings(noise, lapse, 0.0, seed), track=bars, at_once=4
            )
        )
    say(f"{traffic.finished} simulated participants, {len(traffic.answers)} answers, {len(traffic.errors)} errors")
    _analyse(site, folder / "simulated", None)


def _check_answers(folder: Path, database: str | None) -> None:
    """Raise an error if a study has no database of answers; one of a simulation is named."""
    if database is not None or (folder / "answers.db").exists():
        return
    simulated = folder / "simulated.db"
    if simulated.exists():
        raise PartswapError(
            f"only simulated participants have answered {folder} so far.",
            f"Name their database: --database sqlite:///{simulated.absolute()}.",
        )
    raise PartswapError(f"{folder} has no answers yet.", "Serve it first, or name its database (--database).")


def _anyone_answered(folder: Path) -> bool:
    """Tell whether the study's own database has answers; serving a study makes it, before there are any."""
    from partswap.apps.study.server import open_site

    if not (folder / "answers.db").exists():
        return False
    database = open_site(folder).database
    try:
        return any(row["done"] for row in database.everyone())
    finally:
        database.close()


@app.command("analyse")
def analyse(
    folder: Folder,
    out: Annotated[Path | None, output_folder("Folder for text, table and figure.")] = None,
    database: DatabaseUrl = None,
    keep_unfinished: Annotated[bool, typer.Option(help="Count people who did not come to the end, too.")] = False,
    failed_checks: Annotated[int, typer.Option(min=0, help="Leave out people who failed more attention checks.")] = 1,
    least_answer: Annotated[float, typer.Option(help="Leave out people whose usual answer took less seconds.")] = 0.3,
    knew: Annotated[float, typer.Option(help="Leave out blocks with more than this share right before.")] = 0.8,
    seed: Seed = 0,
) -> None:
    """Say what people learned: accuracy per method and setup, with intervals and tests."""
    from partswap.apps.study.analyse import ExclusionRules
    from partswap.apps.study.server import open_site

    simulated = folder / "simulated.db"
    place = folder / "analysis"
    if database is None and simulated.exists() and not _anyone_answered(folder):
        say(f"no person has answered {folder} yet: this is about the simulated participants of {simulated}")
        database, place = f"sqlite:///{simulated.absolute()}", folder / "simulated"
    _check_answers(folder, database)
    rules = ExclusionRules(not keep_unfinished, failed_checks, least_answer, knew)
    _analyse(open_site(folder, database), out or place, rules, seed)


def _analyse(site: StudyState, out: Path, rules: Any, seed: int = 0) -> None:
    from partswap.apps.study import analyse as study_analysis
    from partswap.apps.study.export import answers_table

    answers = answers_table(site.study, site.database)
    rules = rules or study_analysis.ExclusionRules()
    analysis = study_analysis.analyse(answers, site.study.titles, rules, seed=seed)
    study_analysis.write_analysis(analysis, answers, out)
    say(study_analysis.table_markdown(analysis))
    say(study_analysis.paragraph(analysis))
    say(f"wrote {out}")


@app.command("backup")
def backup(
    folder: Folder,
    out: Annotated[Path, output_file("File of the copy (SQLite); served with --database sqlite:///FILE.")],
    database: DatabaseUrl = None,
) -> None:
    """Copy the answers of a study, while it runs."""
    from partswap.apps.study.backup import back_up
    from partswap.apps.study.server import open_site

    _check_answers(folder, database)
    count = back_up(open_site(folder, database).database, out)
    say(f"copied {count} answers to {out}")
