"""Networks of other images than 224 x 224 in colours: one channel, four channels, 16 pixels."""

import contextlib
import warnings

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from partswap import Explainer, Preprocess, _vision
from partswap.errors import CutError, ImageError, PartswapError, SettingError
from partswap.explainer.notes import PartswapWarning
from partswap.models.preprocessing import preprocess_for
from partswap.results.counterfactual import Counterfactual

#: What the blob of each class looks like, by the number of channels.
LOOKS = {1: [[0], [150], [255]], 4: (255 * np.eye(4)).tolist()}


def drawn(channels: int, label: int, seed: int) -> np.ndarray:
    """Return an image ``(16, 16, channels)`` with a blob of a class somewhere on noise."""
    rng = np.random.default_rng([channels, label, seed])
    image = rng.integers(60, 90, (16, 16, channels))
    row, column = rng.integers(0, 3, 2) * 4 + 2
    image[row : row + 5, column : column + 5] = LOOKS[channels][label]
    return image.astype(np.uint8)


def network(channels: int, classes: int) -> nn.Sequential:
    torch.manual_seed(0)
    body = [nn.Conv2d(channels, 12, 4, stride=4), nn.ReLU(), nn.Conv2d(12, 12, 3, padding=1), nn.ReLU()]
    return nn.Sequential(*body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(12, classes))


@pytest.fixture(scope="module", params=[1, 4])
def trained(request):
    """Return a network of one or four channels that was trained for a moment, and how many."""
    channels = request.param
    classes = len(LOOKS[channels])
    labels = torch.arange(60) % classes
    images = np.stack([drawn(channels, int(label), seed) for seed, label in enumerate(labels)])
    inputs = torch.from_numpy(images).permute(0, 3, 1, 2).float() / 255
    model = network(channels, classes)
    optimizer = torch.optim.Adam(model.parameters(), 0.02)
    for _ in range(120):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
    assert float((model(inputs).argmax(1) == labels).float().mean()) > 0.9
    return model.eval(), channels


def test_networks_of_one_and_four_channels_are_explained(trained, tmp_path):
    model, channels = trained
    unit = Preprocess(16, mean=(0,) * channels, std=(1,) * channels)
    explainer = Explainer(model, "3", preprocess=unit)
    query, donors = drawn(channels, 0, 100), [drawn(channels, 1, seed) for seed in range(100, 106)]
    cf = explainer.explain(query, donors, 1)
    assert cf.flipped
    assert explainer.verify(cf)
    assert cf.verify(model)
    tensors = [torch.from_numpy(image).permute(2, 0, 1) for image in (query, *donors)]
    assert explainer.explain(tensors[0], tensors[1:], 1).edits == cf.edits
    assert explainer.explain(tensors[0] / 255, torch.stack(tensors[1:]) / 255, 1).edits == cf.edits
    shown = np.asarray(cf.pictures.query)
    assert shown.shape == (16, 16, 3)
    assert np.array_equal(shown, query[..., [0, 0, 0] if channels == 1 else [0, 1, 2]])
    assert all(heat.values.shape == (4, 4) for heat in explainer.heat(cf).values())
    cf.plot(tmp_path / "why.png")
    with pytest.raises(ImageError, match=r"channels|not an image"):
        explainer.explain(np.zeros((16, 16, 5), np.uint8), donors, 1)
    if channels == 4:
        with pytest.raises(SettingError, match="the model takes 4 channels"):
            explainer.explain(query, donors, 1, pixel=True)
    else:
        assert explainer.explain(query, donors, 1, pixel=True).pixel is not None


def test_grey_pictures_and_files_are_what_a_network_of_one_channel_takes(trained, tmp_path):
    model, channels = trained
    if channels == 4:
        chosen = Preprocess(16, mean=(0,) * 4, std=(1,) * 4, shown=(3, 1, 0))
        cf = Explainer(model, "3", preprocess=chosen).explain(drawn(4, 0, 7), [drawn(4, 1, 8), drawn(4, 1, 9)], 1)
        assert np.array_equal(np.asarray(cf.pictures.query), drawn(4, 0, 7)[..., [3, 1, 0]])
        return
    explainer = Explainer(model, "3", preprocess=Preprocess(16, mean=(0,), std=(1,)))
    arrays = [drawn(1, 0, 100), *(drawn(1, 1, seed) for seed in range(100, 104))]
    expected = explainer.explain(arrays[0], arrays[1:], 1)
    paths = []
    for k, array in enumerate(arrays):
        Image.fromarray(array[..., 0]).save(tmp_path / f"{k}.png")
        paths.append(tmp_path / f"{k}.png")
    cf = explainer.explain(Image.open(paths[0]), paths[1:], 1)
    assert cf.edits == expected.edits
    read = Counterfactual.load(explainer.explain(paths[0], paths[1:], 1).save(tmp_path / "why.json"))
    assert read.verify(model)


def test_a_transform_for_grey_images_gets_them(trained):
    t = _vision.torchvision("transforms")
    model, channels = trained
    if channels == 4:
        return
    steps = [t.Resize(16), t.CenterCrop(16), t.ToTensor()]
    for transform in (t.Compose([*steps]), t.Compose([t.Grayscale(), *steps])):
        explainer = Explainer(model, "3", preprocess=transform)
        assert explainer.preprocess.channels == 1
        cf = explainer.explain(drawn(1, 0, 100), [drawn(1, 1, seed) for seed in range(100, 104)], 1)
        assert cf.flipped
        assert explainer.verify(cf)


# -- what is assumed --------------------------------------------------------------------------------------------------


def test_what_is_assumed_is_said_once(trained):
    model, channels = trained
    with pytest.warns(UserWarning, match=r"preprocessing is assumed, pixels of 0 to 1: .* center 224 x 224, mean 0"):
        explainer = Explainer(model, "3", auxiliary=None)
    assert [note.kind for note in explainer.notes] == ["preprocess"]
    assert explainer.preprocess.channels == channels
    known = Preprocess(16, mean=(0,) * channels, std=(1,) * channels)
    assert Explainer(model, "3", auxiliary=None, preprocess=known).notes == []
    colours = network(3, 2).eval()
    with pytest.warns(
        UserWarning, match=r"as for ImageNet: short side 256, center 224 x 224, mean 0.485 0.456 0.406, std"
    ):
        Explainer(colours, auxiliary=None)


def test_hardly_any_image_of_a_class_folder_right_is_suspicious(trained, tmp_path):
    model, channels = trained
    if channels == 4:
        return
    (tmp_path / "2_Bright").mkdir()
    for seed in range(100, 106):
        Image.fromarray(drawn(1, 2, seed)[..., 0]).save(tmp_path / "2_Bright" / f"{seed}.png")
    names = ["dark", "grey", "2 bright"]
    notes = []
    for mean in (0, 1):  # as it was trained, and bright pixels as black
        known = Preprocess(16, mean=(mean,), std=(1,))
        explainer = Explainer(model, "3", auxiliary=None, preprocess=known, class_names=names)
        with contextlib.suppress(PartswapError), warnings.catch_warnings():
            warnings.simplefilter("ignore", PartswapWarning)
            explainer.explain(drawn(1, 0, 100), tmp_path / "2_Bright", keep_misclassified=True)
        notes.append([(note.kind, note.text) for note in explainer.notes])
    assert notes[0] == []
    assert notes[1][0][0] == "suspect"
    assert "of 6 images of known classes (by folder or label)" in notes[1][0][1]


def test_what_timm_says_of_other_weights_is_assumed():
    usual, tuned = (_vision.timm().create_model("resnet18", num_classes=classes) for classes in (1000, 10))
    assert preprocess_for(usual).assumed == ""
    assert preprocess_for(tuned).assumed == "as timm says of its weights for 1000 classes, not 10"


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_a_network_of_another_size_says_which(channels):
    model = nn.Sequential(nn.Conv2d(channels, 4, 4, stride=4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 8 * 8, 3)).eval()
    extra = "" if channels == 3 else rf", mean={Preprocess(8, mean=(0,) * channels, std=(1,) * channels).mean}"
    with pytest.raises(CutError) as caught:
        Explainer(model, auxiliary=None)
    assert f"say preprocess=Preprocess(32{extra}" in str(caught.value)
    assert "--size 32" in caught.value.in_flags()
    assert "probe" not in str(caught.value)
