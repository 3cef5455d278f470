"""Help: of every command, readable, without waiting for torch, with the names that are registered."""

import importlib
import re
import subprocess
import sys
from operator import attrgetter
from pathlib import Path

import pytest
from typer.testing import CliRunner

import partswap.cli
from command_line import COMMANDS
from partswap import AUXILIARIES, DATASETS, METHODS, METRICS
from partswap.analysis.paper.context import TABLES
from partswap.cli.main import app
from partswap.cli.paper import SUMMARIES
from partswap.drawing.figures import FIGURES
from partswap.runs.config import RunConfig, flag_of
from partswap.utils.registry import registered


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_help_fits_a_terminal_and_names_every_flag(words):
    output = CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": "80"})
    assert output.exit_code == 0, output.output
    assert max(map(len, output.output.splitlines())) <= 80
    assert "…" not in output.output
    assert "..." not in output.output.partition("Commands:")[2]  # whole sentences, not their beginnings
    for parameter in COMMANDS[words].params:
        assert parameter.opts[0] in output.output
        assert parameter.name == "help" or parameter.help
    for name in getattr(COMMANDS[words], "commands", ()):
        assert f" {name} " in output.output


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_an_auxiliary_is_found_without_a_word(words):
    """Everywhere but where some are computed ahead, or one's clusters get names."""
    flags = {option: parameter for parameter in COMMANDS[words].params for option in parameter.opts}
    if "--auxiliary" not in flags or words in [("encode",), ("parts", "name")]:
        return
    output = CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": "80"}).output
    help_text = " ".join(output.partition("--auxiliary ")[2].split())
    assert "[default: auto]" in help_text.replace("(auto)", "auto").partition(" --")[0]
    assert flags["--auxiliary"].default in ("auto", None)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_the_short_flag_for_help_is_the_long_one(words):
    short, whole = (CliRunner().invoke(app, [*words, flag], env={"COLUMNS": "80"}) for flag in ("-h", "--help"))
    assert short.exit_code == 0
    assert short.output == whole.output


def test_help_does_not_wait_for_torch():
    code = """if True:
        import sys
        from typer.testing import CliRunner
        from partswap.cli.main import app
        for words in (), ["run"], ["paper", "sota"], ["train", "parts"], ["explain"], ["data", "check"]:
            assert CliRunner().invoke(app, [*words, "--help"]).exit_code == 0
        assert not {"torch", "numpy", "partswap.search"} & set(sys.modules)
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("registry", [METHODS, METRICS, DATASETS, AUXILIARIES, TABLES, FIGURES], ids=lambda it: it.kind)
def test_names_are_read_without_importing(registry):
    defaults = registered(registry.package)
    assert list(defaults) == registry.names()
    assert all(defaults.values())


def test_there_is_a_command_for_every_table():
    assert set(COMMANDS["paper",].commands) == set(SUMMARIES) == set(TABLES.names())
    assert all(COMMANDS["paper", name].help == title for name, title in SUMMARIES.items())


def test_every_field_of_a_run_is_a_flag():
    flags = {option for parameter in COMMANDS["run",].params for option in parameter.opts}
    assert {flag_of(name) for name in RunConfig.model_fields} <= flags


@pytest.mark.parametrize(
    ("words", "defaults"),
    [
        ("check sanity", {"queries": 100, "distractors": 5, "split": "test", "precision": "auto", "seed": 0}),
        ("check stability", {"queries": 100, "distractors": 5, "split": "test", "method": "partswap"}),
        ("tune", {"queries": 100, "distractors": 20, "split": "train", "path": None, "auxiliary": "auto"}),
        ("paper sota", {"queries": None, "distractors": 20, "workers": None, "auxiliary": None}),
        ("encode", {"split": "test", "cache": None}),
        ("run", dict.fromkeys(RunConfig.model_fields)),  # the file decides
    ],
)
def test_defaults_are_the_command_s_own(words, defaults):
    command = COMMANDS[tuple(words.split())]
    found = {parameter.name: parameter.default for parameter in command.params}
    assert {name: found[name] for name in defaults} == defaults
    required = {parameter.name for parameter in command.params if parameter.required}
    assert required == {"run": set()}.get(words, {"data", "model"})


def test_a_shell_completes_commands_and_flags():
    for words, expected in ((["partswap", "expla"], "explain"), (["partswap", "explain", "--max"], "--max-edits")):
        asked = {"COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
        result = CliRunner().invoke(app, prog_name="partswap", env={"_PARTSWAP_COMPLETE": "complete_bash", **asked})
        assert result.output.split() == [expected]


def test_checks_that_are_named_exist():
    texts = [path.read_text() for path in Path(partswap.cli.__file__).parent.glob("*.py")]
    places = re.findall(r'\bcalls\("([\w.]+):([\w.]+)"', "".join(texts))
    assert len(places) >= 6
    for module, name in places:
        assert callable(attrgetter(name)(importlib.import_module(module))), (module, name)
