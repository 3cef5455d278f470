"""What makes no sense is refused before any work: before data, models or images, which here do not even exist."""

import sys

import pytest
from typer.testing import CliRunner

from command_line import COMMANDS
from partswap.cli.main import app
from partswap.errors import PartswapError

#: Commands and what they need, none of which is there.
NOTHING = {
    ("demo",): "demo",
    ("explain",): "explain a.png b --model nothing",
    ("run",): "run --data cub --path nothing --model nothing",
    ("explore",): "explore --data cub --path nothing --model nothing --port 0",
    ("figures",): "figures --data cub --path nothing --model nothing",
    ("report",): "report nothing",
    ("compare",): "compare nothing nothing",
    ("classes",): "classes nothing",
    ("layers",): "layers nothing",
    ("show",): "show nothing",
    ("aviary", "train"): "aviary train vgg",
    ("data", "check"): "data check cub nothing",
    ("data", "show"): "data show cub nothing",
    ("parts", "name"): "parts name --data cub --path nothing --auxiliary swav --out names.json",
    ("study", "plan"): "study plan nothing --out study",
    ("study", "serve"): "study serve nothing",
    ("study", "analyse"): "study analyse nothing",
    ("aviary", "sheet"): "aviary sheet sheet.png",
    ("aviary", "save"): "aviary save birds",
    ("train", "words"): "train words --data cub --path nothing --model nothing --out out",
    **{
        ("train", name): f"train {name} --data cub --path nothing --out out"
        for name in ("classifier", "parts", "auxiliary")
    },
}


#: The tables of the paper share their flags: one stands for all.
SINGLE = {words: command for words, command in COMMANDS.items() if words[:1] != ("paper",) or words[1:] == ("sota",)}


def complaint(words, tmp_path, monkeypatch):
    """Return what a command that is refused says."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    for image in ("a.png", "b"):
        (tmp_path / image).touch()
    result = CliRunner().invoke(app, words.split())
    assert result.exit_code != 0, result.output
    if isinstance(result.exception, PartswapError):
        return result.exception.in_flags()
    assert result.exit_code == 2, result.output  # typer's own, about usage
    return result.output


def start(words):
    """Return a command whose data and model do not exist."""
    usual = " ".join(words) + " --data cub --path nothing --model nothing"
    return NOTHING.get(words, usual if any(p.name == "model" for p in COMMANDS[words].params) else " ".join(words))


COUNTS = [
    (words, parameter)
    for words, command in SINGLE.items()
    for parameter in command.params
    if not hasattr(command, "commands") and parameter.type_descriptor.annotation in (int, int | None, list[int] | None)
]


@pytest.mark.parametrize(
    ("words", "parameter"), COUNTS, ids=lambda part: " ".join(part) if isinstance(part, tuple) else part.name
)
def test_a_number_below_its_least_is_refused_before_any_work(words, parameter, tmp_path, monkeypatch):
    message = complaint(f"{start(words)} {parameter.opts[0]} -1", tmp_path, monkeypatch)
    assert f"Invalid value for '{parameter.opts[0]}'" in message or f"{parameter.name} is -1" in message


ARGUMENTS = {
    "--auxiliary swaw": "Did you mean 'swav'",
    "--auxiliary swav=none.pth": "there is no file none.pth",
    "--method goyall": "there is no method called 'goyall'",
    "--cache file/cache": "the cache folder cannot be used: file/cache cannot be made",
    "--words none": "there is no file or folder none",
    "--precision half": "half",
    "--device tpu": "tpu",
}
WRONG = [
    (words, f"{flag} {value}", message)
    for words in SINGLE
    for (flag, value), message in ((text.split(), message) for text, message in ARGUMENTS.items())
    if any(flag in parameter.opts for parameter in COMMANDS[words].params) and words[:1] not in [("study",)]
]
OTHERS = [
    ("demo --model vgk", "Did you mean 'vgg'"),
    ("explain a.png b --model nothing --set beem=4", "Did you mean 'beam'"),
    ("explain a.png b --model nothing --set beam=0", "beam is 0"),
    ("explain a.png b --model nothing --method hard --auxiliary none", "needs an auxiliary"),
    ("explain a.png b --model nothing --method paper --auxiliary none", "no auxiliary to say what is alike"),
    ("run --data cub --path nothing --model nothing --method hard --auxiliary none", "needs an auxiliary"),
    ("tune --data cub --path nothing --model nothing --method goyal", "has no lam and tau"),
    ("tune --data cub --path nothing --model nothing --lam -1", "lam is -1"),
    ("tune --data cub --path nothing --model nothing --tau 0", "tau is 0"),
    ("tune --data cub --path nothing --model nothing --auxiliary none", "no auxiliary to tune for"),
    ("paper sota --data cub --path nothing --model nothing --auxiliary none", "needs an auxiliary"),
    ("paper sota --data cub --path nothing --model nothing --tuned none.json", "there is no file or folder none.json"),
    ("paper sota --data cub --path nothing --model nothing --runs file/runs", "file is a file"),
    ("check sanity --data cub --path nothing --model nothing --which heads", "nothing called 'heads' to randomise"),
    ("train classifier --data cub --path nothing --out out --start none.pt", "no file or folder none.pt to start from"),
    ("train classifier --data cub --path nothing --out out --start timm:resnte50", "no model called 'timm:resnte50'"),
    ("train classifier --data cub --path nothing --out out --arch resnte50", "Did you mean 'resnet50'"),
    ("train classifier --data cub --path nothing --out out --optimizer adam", "Use sgd or adamw"),
    ("train classifier --data cub --path nothing --out out --lr fast", "the learning rate is 'fast'"),
    ("train parts --data cub --path nothing --out out --arch resnte50", "Did you mean 'resnet50'"),
    ("train auxiliary --data cub --path nothing --out out --start swaw", "Did you mean 'swav'"),
    ("train words --data cub --path nothing --model nothing --out out --parts none", "no file or folder none"),
    (f"{NOTHING['parts', 'name']} --name 20=head", "there is no cluster 20. Use 0 to 19."),
    ("data show cub nothing --out sheet.docx", "no suffix of an image"),
    ("aviary sheet sheet.docx", "no suffix of an image"),
    ("aviary sheet file/sheet.png", "file is a file"),
    ("aviary save file/birds", "file is a file"),
    ("show nothing --plot why.docx", "no suffix of a figure"),
]


@pytest.mark.parametrize(
    ("words", "message"),
    [(f"{start(words)} {argument}", message) for words, argument, message in WRONG] + OTHERS,
)
def test_an_argument_that_makes_no_sense_is_refused_before_any_work(words, message, tmp_path, monkeypatch):
    assert message in complaint(words, tmp_path, monkeypatch)


@pytest.mark.parametrize(
    ("words", "package", "message"),
    [
        ("run --data cub --path nothing --model nothing --on ray", "ray", "partswap[ray]"),
        ("train classifier --data cub --path nothing --out out --processes 2", "accelerate", "partswap[train]"),
        ("explore --data cub --path nothing --model nothing", "uvicorn", "partswap[explore]"),
        ("study plan nothing --out study", "alembic", "partswap[study]"),
    ],
)
def test_an_extra_that_is_missing_is_named_before_any_work(words, package, message, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    assert message in complaint(words, tmp_path, monkeypatch)
