"""What a model gets of an image."""

import functools
import http.server
import io
import threading
from dataclasses import dataclass, fields

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from partswap import _vision, aviary, open_dataset
from partswap.errors import ImageError, SettingError, ShapeError
from partswap.inputs.images import fetch_image, find_images, image_of, label_of, list_images, read_image
from partswap.inputs.preprocess import Preprocess
from partswap.inputs.transforms import CustomPreprocess
from partswap.models.preprocessing import as_preprocess, of_timm, preprocess_for


def test_the_key_of_a_preprocess_tells_what_is_not_the_default():
    assert Preprocess().key() == Preprocess(224, None).key() == "Preprocess()"
    assert Preprocess(160, mean=(0.5, 0.5, 0.5)).key() == "Preprocess(size=160, mean=(0.5, 0.5, 0.5))"
    # Caches are kept under keys that leave defaults out, so these must not change.
    values = [getattr(Preprocess(), f.name) for f in fields(Preprocess) if f.compare]
    assert values == [224, None, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225), "bilinear", "crop"]


def test_a_field_that_is_added_changes_no_key():
    @dataclass(frozen=True)
    class Later(Preprocess):
        sharpen: bool = False

    assert Later(160).key() == Preprocess(160).key() != Later(160, sharpen=True).key()


# -- reading ----------------------------------------------------------------------------------------------------------


def test_photographs_are_turned_as_the_camera_says(tmp_path):
    image = Image.new("RGB", (60, 40), "red")
    image.paste("blue", (0, 0, 60, 10))  # blue above
    exif = Image.Exif()
    exif[0x0112] = 6  # held upright: turn by 90 degrees to the right
    image.save(tmp_path / "phone.png", exif=exif)
    for source in (tmp_path / "phone.png", Image.open(tmp_path / "phone.png"), (tmp_path / "phone.png").read_bytes()):
        found = read_image(source)
        assert found.size == (40, 60)
        assert found.getpixel((38, 30)) == (0, 0, 255)  # blue at the right
    (tmp_path / "birds/gull").mkdir(parents=True)
    (tmp_path / "phone.png").rename(tmp_path / "birds/gull/phone.png")
    assert open_dataset("folder", tmp_path / "birds", "all").image(0).size == (40, 60)
    assert read_image(tmp_path / "birds/gull/phone.png", upright=False).size == (60, 40)  # where keypoints are on these


def test_sixteen_bits_become_eight(tmp_path):
    ramp = np.linspace(0, 65535, 64).astype(np.uint16)[None].repeat(16, 0)
    Image.fromarray(ramp).save(tmp_path / "deep.png")
    found = np.asarray(read_image(tmp_path / "deep.png"))[0, :, 0]
    assert found[0] == 0
    assert found[-1] == 255
    assert np.abs(found.astype(float) - ramp[0] / 257).max() <= 0.5
    with pytest.raises(ImageError, match="8 or 16 bits"):
        read_image(Image.fromarray(np.linspace(-1, 3, 256, dtype=np.float32).reshape(16, 16)))
    with pytest.raises(ImageError, match="what is black or white is unknown"):  # neither surely 8 bits nor 16
        read_image(Image.fromarray(np.arange(256, dtype=np.int32).reshape(16, 16)))


def test_an_image_too_small_to_show_anything_is_refused(tmp_path):
    Image.new("RGB", (1, 1)).save(tmp_path / "dot.png")
    with pytest.raises(ImageError, match=r"dot.png has 1 x 1 pixels"):
        read_image(tmp_path / "dot.png")
    with pytest.raises(ImageError, match="strip"):
        Preprocess().crop(Image.new("RGB", (30000, 8)))


def test_everything_that_holds_an_image_is_read(tmp_path):
    image = aviary.draw(0, 1).image
    image.save(tmp_path / "bird.png")
    data, array = (tmp_path / "bird.png").read_bytes(), np.asarray(image)
    torchvision_like = torch.from_numpy(array.copy()).permute(2, 0, 1)
    items = [(image, 3), {"image": image, "label": 3}]  # of data sets of torchvision and of Hugging Face
    assert [label_of(item) for item in items] == [3, 3]
    sources = [image, array, data, bytearray(data), io.BytesIO(data), torchvision_like, *items]
    sources += [tmp_path / "bird.png", str(tmp_path / "bird.png"), (tmp_path / "bird.png").open("rb")]
    assert all(np.array_equal(np.asarray(read_image(source)), array) for source in sources)
    with pytest.raises(ImageError, match="is a folder"):
        read_image(tmp_path)
    with pytest.raises(ImageError, match="a dict is not an image"):
        read_image({})
    with pytest.raises(ImageError, match="cannot be read as an image"):
        read_image(b"no image")


def test_several_images_may_be_a_folder_or_anything_to_go_through(tmp_path):
    for name in ("a.png", "b.jpg", "note.txt"):
        (tmp_path / name).write_bytes(b"x")
    both = [tmp_path / "a.png", tmp_path / "b.jpg"]
    assert list_images(tmp_path) == list_images(str(tmp_path)) == list_images([tmp_path]) == both
    assert list_images(path for path in both) == both == find_images(both)
    assert len(list_images(torch.zeros(3, 3, 8, 8))) == 3
    with pytest.raises(ShapeError, match=r"a int is no image.*, a list of images"):
        list_images(7)


def test_one_image_is_a_list_of_one(tmp_path):
    item = (Image.new("RGB", (9, 9)), 1)
    for single in (tmp_path / "a.png", "a.png", item[0], b"x", io.BytesIO(b"x"), torch.zeros(3, 8, 8), item):
        (listed,) = list_images(single)
        assert listed is single
    assert len(list_images(np.zeros((1, 9, 9, 3), np.uint8))) == len(list_images(torch.zeros(1, 3, 8, 8))) == 1


def test_loaders_and_their_batches_are_images():
    images, labels = torch.arange(5.0)[:, None, None, None].expand(5, 3, 8, 8), torch.arange(5)
    pairs = torch.utils.data.TensorDataset(images, labels)
    dicts = [{"pixel_values": image, "labels": label} for image, label in pairs]
    alone = torch.utils.data.TensorDataset(images)
    for data, known in ((pairs, True), (dicts, True), (alone, False)):
        listed = list_images(torch.utils.data.DataLoader(data, batch_size=2))
        assert [float(image_of(image).mean()) for image in listed] == [0, 1, 2, 3, 4]
        assert [label_of(image) for image in listed] == ([0, 1, 2, 3, 4] if known else [None] * 5)
    batch = next(iter(torch.utils.data.DataLoader(pairs, batch_size=3)))
    assert [label_of(image) for image in list_images(batch)] == [0, 1, 2]


def test_addresses_are_fetched_only_when_asked_for():
    png = io.BytesIO()
    aviary.draw(0, 1).image.save(png, "png")
    answers = {"/bird.png": png.getvalue(), "/large.png": b"x" * 3_000_000, "/page": b"<html>"}

    class Server(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            found = answers.get(self.path)
            self.send_response(404 if found is None else 200)
            self.end_headers()
            self.wfile.write(found or b"")

        def log_message(self, *args):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        base = f"http://127.0.0.1:{server.server_address[1]}"
        with pytest.raises(ImageError, match="not fetched unless"):
            read_image(f"{base}/bird.png")
        assert fetch_image(f"{base}/bird.png").size == (224, 224)
        with pytest.raises(ImageError, match="larger than 1 MB"):
            fetch_image(f"{base}/large.png", limit_mb=1)
        with pytest.raises(ImageError, match="cannot be read as an image"):
            fetch_image(f"{base}/page")
        with pytest.raises(ImageError, match="404"):
            fetch_image(f"{base}/gone.png")
        server.shutdown()
    for address in ("file:///etc/hostname", "ftp://127.0.0.1/x.png"):
        with pytest.raises(ImageError, match="no address of the web"):
            fetch_image(address)


# -- preparing --------------------------------------------------------------------------------------------------------


def test_oblong_and_squashed_inputs():
    image = aviary.draw(0, 1).image.resize((300, 200))
    oblong = Preprocess((192, 256), 224)
    assert oblong.shape == (192, 256)
    tensor, canvas = oblong(image)
    assert tensor.shape == (3, 192, 256)
    assert canvas.size == (256, 192)
    left, top, right, bottom = oblong.box(image.size)
    assert (right - left) / (bottom - top) == pytest.approx(256 / 192, rel=0.01)
    assert Preprocess(224, fit="squash").box((300, 200)) == (0, 0, 300, 200)
    assert Preprocess((224, 224)) == Preprocess(224)
    with pytest.raises(SettingError, match="square images only"):
        _ = oblong.side


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"size": 0}, "size is 0"),
        ({"size": (1, 2, 3)}, "size is"),
        ({"size": "224"}, "size is"),
        ({"resize": 100}, "not below the size"),
        ({"mean": (0.5, 0.5)}, "as many numbers as there are in std: 3"),
        ({"std": (0.5, 0.0, 0.5)}, "above 0"),
        ({"interpolation": "cubic"}, "bicubic"),
        ({"fit": "stretch"}, "squash"),
    ],
)
def test_nonsense_in_a_preprocess_is_named(wrong, says):
    with pytest.raises(SettingError, match=says):
        Preprocess(**wrong)


def usual(resize: int, crop: int, mean=(0.5, 0.4, 0.3), std=(0.2, 0.25, 0.3)):
    v2 = _vision.torchvision("transforms.v2")
    steps = [v2.Resize(resize), v2.CenterCrop(crop), v2.ToImage(), v2.ToDtype(torch.float32, scale=True)]
    return v2.Compose([*steps, v2.Normalize(mean, std)])


def test_a_transform_of_torchvision_is_followed_exactly():
    transform = usual(256, 224)
    preprocess = as_preprocess(transform, torch.nn.Identity())
    assert preprocess.shape == (224, 224)
    assert preprocess.mean == pytest.approx((0.5, 0.4, 0.3), abs=1e-5)
    assert preprocess.std == pytest.approx((0.2, 0.25, 0.3), abs=1e-5)
    image = aviary.draw(2, 5).image.resize((400, 300))
    tensor, canvas = preprocess(image)
    assert torch.equal(tensor, transform(image))
    difference = np.abs(np.asarray(canvas, float) - np.asarray(Preprocess(224, 256).crop(image), float))
    assert difference.mean() < 2


@given(st.integers(120, 700), st.integers(120, 700))
def test_where_a_function_cuts_is_found_by_trying(width, height):
    known = Preprocess(96, 128)
    tried = CustomPreprocess.of(lambda image: known(image)[0])
    # A pixel of the canvas may be several of the image.
    unit = min(width, height) / 128
    for mine, theirs in zip(tried.box((width, height)), known.box((width, height)), strict=True):
        assert abs(mine - theirs) < max(1.5 * unit, 0.01 * max(width, height))


def test_a_function_that_cannot_be_followed_is_refused():
    v2 = _vision.torchvision("transforms.v2")
    ends = [v2.ToImage(), v2.ToDtype(torch.float32, scale=True)]
    cases = {
        "another result each time": v2.Compose([v2.RandomResizedCrop(64), *ends]),
        "one size": v2.Compose([v2.Resize(64), *ends]),
        "fixed mean and std": lambda image: torch.nn.functional.layer_norm(usual(64, 64)(image), (64, 64)),
        "v2.ToImage": v2.Resize((64, 64)),
        "v2.ToDtype": v2.Compose([v2.Resize((64, 64)), v2.ToImage()]),
        "KeyError": lambda image: {}["x"],
    }
    for says, function in cases.items():
        with pytest.raises(SettingError, match=says):
            as_preprocess(function, torch.nn.Identity())
    turned = as_preprocess(v2.Compose([v2.Resize((64, 64)), v2.RandomHorizontalFlip(1.0), *ends]), torch.nn.Identity())
    with pytest.raises(SettingError, match="more than resize and crop"):
        turned.box((100, 100))
    with pytest.raises(SettingError, match="preprocess is a int"):
        as_preprocess(7, torch.nn.Identity())


@pytest.mark.parametrize("version", ["transforms", "transforms.v2"])
def test_a_transform_that_is_random_now_and_then_is_always_refused_by_name(version):
    t = _vision.torchvision(version)
    resize, tensor = t.Resize((32, 32)), _vision.torchvision("transforms").ToTensor()
    rare = {
        "RandomHorizontalFlip": t.Compose([resize, t.RandomHorizontalFlip(0.01), tensor]),
        "RandomErasing": t.Compose([t.Compose([resize, tensor]), torch.nn.Sequential(t.RandomErasing(0.01))]),
        "RandomApply": t.Compose([resize, t.RandomApply([t.RandomRotation(9)], p=0.01), tensor]),
        "RandomRotation": t.Compose([resize, t.RandomApply([t.RandomRotation(9)], p=1), tensor]),
        "ColorJitter": t.Compose([resize, t.ColorJitter(0.5), tensor]),
    }
    for name, transform in rare.items():
        for form in (transform, functools.partial(transform), transform.__call__):
            with pytest.raises(SettingError, match=rf"{name}.* in [\w.]+ gives .* test images, without {name}"):
                as_preprocess(form, torch.nn.Identity())
    assert as_preprocess(t.Compose([resize, t.RandomErasing(0.0), t.RandomGrayscale(0.0), tensor]), torch.nn.Identity())


def test_a_function_that_is_random_inside_is_tried_often_enough():
    known, drawn = Preprocess(16), np.random.default_rng(0)
    with pytest.raises(SettingError, match="another result each time"):
        CustomPreprocess.of(lambda image: known(image)[0].flip(2) if drawn.random() < 0.3 else known(image)[0])


def test_what_timm_says_is_followed():
    timm = _vision.timm()
    model = timm.create_model("vit_tiny_patch16_224.augreg_in21k_ft_in1k", num_classes=3)
    found = preprocess_for(model)
    assert (found.size, found.resize, found.interpolation) == (224, 248, "bicubic")
    assert as_preprocess(timm.data.resolve_data_config(model=model), model) == found
    image = aviary.draw(2, 5).image.resize((400, 300))
    theirs = timm.data.create_transform(**timm.data.resolve_data_config(model=model))(image)
    assert (found(image)[0] - theirs).abs().mean() < 0.01
    with pytest.raises(SettingError, match="input_size, mean and std"):
        of_timm({"size": 224})
    with pytest.raises(SettingError, match="crop mode"):
        of_timm({"input_size": (3, 8, 8), "mean": (0, 0, 0), "std": (1, 1, 1), "crop_mode": "border"})


def test_keys_of_functions_tell_them_apart():
    keys = [CustomPreprocess.of(usual(*sizes)).key() for sizes in ((128, 112), (128, 112), (120, 112))]
    assert keys[0] == keys[1] != keys[2]


def test_a_transform_that_inverts_is_refused_as_one():
    with pytest.raises(SettingError, match="inverts images"):
        CustomPreprocess.of(lambda image: 1 - usual(128, 112)(image))
