"""The blocks of the README run as they stand, offline, in a folder that holds what they name."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from partswap import Counterfactual, _vision, aviary

ROOT = Path(__file__).parents[1]


def block(section: str, kind: str, number: int = 0) -> str:
    text = (ROOT / "README.md").read_text().partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    return re.findall(rf"```{kind}\n(.*?)```", text, re.S)[number]


def run(folder: Path, *command: str, **options) -> str:
    scripts = str(Path(sys.executable).parent)
    # No network: whatever would download something fails at once.
    outside = dict.fromkeys(("http_proxy", "https_proxy", "HTTPS_PROXY", "HTTP_PROXY"), "http://127.0.0.1:9")
    env = {**os.environ, **outside, "PATH": f"{scripts}:{os.environ['PATH']}", "COLUMNS": "100", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=600, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("readme")


@pytest.fixture(scope="module")
def shell(folder):
    return run(folder, "sh", "-e", "-c", block("Ten lines of shell", "sh"))


def test_the_shell_block_runs(shell, folder):
    assert "Olive Warbler" in shell
    assert "Spectacled Warbler" in shell
    assert "layer4.0" in shell
    assert Counterfactual.load(folder / "why.json").flipped
    assert {path.suffix for path in folder.glob("why.*")} == {".png", ".json", ".html"}
    assert len(list((folder / "figures").glob("*.png"))) == 6


def test_the_python_block_runs(shell, folder):
    output = run(folder, sys.executable, "-c", block("Ten lines of Python", "python"))
    assert "Counterfactual: Olive Warbler -> Spectacled Warbler" in output
    assert "Verification(holds=True" in output


def test_a_model_of_one_s_own_is_explained(folder):
    (folder / "other_class").mkdir()
    for k in range(5):
        aviary.draw(k, k).image.save(folder / ("photo.jpg" if k == 0 else f"other_class/{k}.jpg"))
    (folder / "names.txt").write_text("gull\ntern\nfinch\n")
    (folder / "mymodel.py").write_text(block("Your own model", "python"))
    torch.manual_seed(0)
    model = _vision.torchvision().models.resnet18(num_classes=3).eval()
    with torch.no_grad():  # says one class of the photograph and another of the others
        photo, others = (
            _inputs(folder, names) for names in (["photo.jpg"], [f"other_class/{k}.jpg" for k in (1, 2, 3)])
        )
        trunk = torch.nn.Sequential(*list(model.children())[:-1], torch.nn.Flatten())
        here, there = trunk(photo)[0], trunk(others).mean(0)
        direction = (there - here) / (there - here).norm() ** 2
        model.fc.weight.copy_(torch.stack([-40 * direction, 40 * direction, 0 * direction]))
        model.fc.bias.copy_(torch.tensor([0.0, 0.0, -50.0]) - model.fc.weight @ (here + there) / 2)
    torch.save(model.state_dict(), folder / "mine.pt")
    output = run(folder, "sh", "-e", "-c", block("Your own model", "sh", 1))
    assert output.count("gull -> tern") == 2
    assert (folder / "why.png").stat().st_size > 10_000


def test_a_model_of_hugging_face_is_explained(folder):
    _vision.torchvision()
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(3)
    labels = {0: "gull", 1: "tern", 2: "finch"}
    config = transformers.ViTConfig(
        hidden_size=32, num_hidden_layers=3, num_attention_heads=2, intermediate_size=64, image_size=96, patch_size=16,
        id2label=labels, label2id={name: k for k, name in labels.items()},
    )  # fmt: skip
    model = transformers.ViTForImageClassification(config)
    with torch.no_grad():
        model.classifier.weight.mul_(50)
    model.save_pretrained(folder / "path/to/folder")
    size = {"height": 96, "width": 96}
    transformers.ViTImageProcessor(size=size).save_pretrained(folder / "path/to/folder")
    (folder / "other_class").mkdir(exist_ok=True)
    for k in range(8):
        aviary.draw(k, k).image.save(folder / ("photo.jpg" if k == 0 else f"other_class/{k}.jpg"))
    words = block("Your own model", "sh", 0).split()
    # Random weights may say one class of all: then distractors of any class will do.
    output = run(folder, *words, "--keep-misclassified")
    assert re.search(r"Counterfactual: (gull|tern|finch) -> (gull|tern|finch)", output)


def _inputs(folder: Path, names: list[str]) -> torch.Tensor:
    from partswap import Preprocess

    return torch.stack([Preprocess(224, 256)(folder / name)[0] for name in names])
