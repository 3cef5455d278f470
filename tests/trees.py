"""Tiny data sets on disk, one function per layout; each returns the folder to open."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from PIL import Image
from scipy.io import savemat

SIZE = (40, 30)
CUB_CLASSES = {1: "001.Black_footed_Albatross", 3: "003.Sooty_Albatross", 7: "007.Parakeet_Auklet"}
CUB_PARTS = ["back", "beak", "left eye", "right eye", "tail"]
BREEDS = ["n02099601-golden_retriever", "n02085620-Chihuahua"]


def write_image(path: Path, seed: int = 0, size: tuple[int, int] = SIZE, mode: str = "RGB", **how: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    Image.fromarray(pixels).convert(mode).save(path, **how)
    return path


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def write_lines(path: Path, lines: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")


def edit_line(path: Path, number: int, text: str) -> None:
    lines = path.read_text().splitlines()
    lines[number - 1] = text
    write_lines(path, lines)


def cub(root: Path, per_class: int = 4) -> Path:
    """CUB-200-2011 with three classes whose ids have gaps; every other image is for training."""
    images, labels, splits, boxes, locs = [], [], [], [], []
    for number in range(len(CUB_CLASSES) * per_class):
        image_id = number + 1
        class_id = list(CUB_CLASSES)[number // per_class]
        file = f"{CUB_CLASSES[class_id]}/bird_{number}.jpg"
        write_image(root / "images" / file, number)
        mask = np.zeros((SIZE[1], SIZE[0]), np.uint8)
        mask[10:20, 5:25] = 255
        (root / "segmentations" / CUB_CLASSES[class_id]).mkdir(parents=True, exist_ok=True)
        picture = Image.fromarray(mask)
        # 1-bit and greyscale take turns.
        (picture.convert("1") if number % 2 else picture).save((root / "segmentations" / file).with_suffix(".png"))
        images.append(f"{image_id} {file}")
        labels.append(f"{image_id} {class_id}")
        splits.append(f"{image_id} {number % 2}")
        boxes.append(f"{image_id} 5.0 10.0 20.0 10.0")
        for part in range(1, len(CUB_PARTS) + 1):
            locs.append(f"{image_id} {part} {5.0 + part} {10.0 + part} {int(part != 5)}")
    write_lines(root / "images.txt", images)
    write_lines(root / "image_class_labels.txt", labels)
    write_lines(root / "train_test_split.txt", splits)
    write_lines(root / "bounding_boxes.txt", boxes)
    write_lines(root / "classes.txt", [f"{i} {name}" for i, name in CUB_CLASSES.items()])
    write_lines(root / "parts" / "parts.txt", [f"{i + 1} {name}" for i, name in enumerate(CUB_PARTS)])
    write_lines(root / "parts" / "part_locs.txt", locs)
    table = [" ".join(str(10.0 * (row + column)) for column in range(3)) for row in range(7)]
    write_lines(root / "attributes" / "class_attribute_labels_continuous.txt", table)
    write_lines(root / "attributes" / "attributes.txt", [f"{i + 1} has_bill::{i}" for i in range(3)])
    return root


def official_cub(root: Path) -> Path:
    """CUB-200-2011 with the oddities of the official one, all harmless; returns the folder above."""
    inner = cub(root / "CUB_200_2011")
    (inner / "attributes" / "attributes.txt").rename(root / "attributes.txt")
    (inner / "segmentations").rename(root / "segmentations")
    files = [line.split()[1] for line in (inner / "images.txt").read_text().splitlines()]
    write_image(inner / "images" / files[0], mode="L")
    locs = inner / "parts" / "part_locs.txt"
    edit_line(locs, 6, f"2 1 {SIZE[0]}.0 11.0 1")  # the first column outside
    edit_line(locs, 7, "2 2 -0.6 12.0 1")
    for part in range(5):  # nothing of the third bird can be seen
        edit_line(locs, 11 + part, f"3 {part + 1} 0.0 0.0 0")
    edit_line(inner / "bounding_boxes.txt", 4, f"4 1.0 1.0 {SIZE[0]}.0 {SIZE[1]}.0")
    edit_line(inner / "bounding_boxes.txt", 5, "5 -1.0 10.0 20.0 10.0")
    write_lines(inner / "attributes" / "image_attribute_labels.txt", ["1 1 0 3 27.7", "1 2 0 3 27.7 0 0", "2275 10 0"])
    (inner / "README").write_text("as it comes")
    return root


def dogs(root: Path, *, mat: bool = False, per_class: int = 4) -> Path:
    """Stanford Dogs with two breeds; the last image has no annotation, the first a mask."""
    entries = []
    lists: dict[str, list[str]] = {"train": [], "test": []}
    for number in range(2 * per_class):
        file = f"{BREEDS[number % 2]}/dog_{number}.jpg"
        write_image(root / "Images" / file, number)
        lists["train" if number // 2 % 2 else "test"].append(file)
        joints = [[3.0 + i, 2.0 + i, 1.0] if i < 20 and i != 12 else [0.0, 0.0, 0.0] for i in range(24)]
        entries.append({"img_path": file, "img_width": SIZE[0], "img_height": SIZE[1], "joints": joints})
    entries[0]["seg"] = {"size": [SIZE[1], SIZE[0]], "counts": [30, 60, SIZE[0] * SIZE[1] - 90]}
    (root / "StanfordExtra_v12.json").write_text(json.dumps(entries[:-1]))
    for split, files in lists.items():
        if mat:
            cells = np.empty((len(files), 1), object)
            cells[:, 0] = files
            # The official labels follow the names; these do not, and must not change the order of the classes.
            labels = np.array([[1 + BREEDS.index(f.partition("/")[0])] for f in files])
            (root / "lists").mkdir(exist_ok=True)
            savemat(root / "lists" / f"{split}_list.mat", {"file_list": cells, "labels": labels})
        else:
            write_lines(root / f"{split}_list.txt", files)
    return root


def inaturalist(root: Path, *, keypoints: bool = True) -> Path:
    """iNaturalist 2021 with two birds and one mammal, two to three images each, and a file of keypoints."""
    species = [
        ("Turdus merula", "Blackbird", "Birds"),
        ("Parus major", "Great Tit", "Birds"),
        ("Vulpes", "", "Mammals"),
    ]
    categories = [
        {"id": 10 * i, "name": name, "common_name": common, "supercategory": group, "image_dir_name": f"{i:05d}_{name}"}
        for i, (name, common, group) in enumerate(species)
    ]
    root.mkdir(parents=True, exist_ok=True)
    for split, count in (("train", 4), ("train_mini", 3), ("val", 2)):
        images, annotations = [], []
        for number in range(count * len(species)):
            file = f"{split}/{number % 3:05d}_x/{number}.jpg"
            write_image(root / file, number)
            images.append({"id": 100 + number, "file_name": file, "width": SIZE[0], "height": SIZE[1]})
            annotations.append({"id": number, "image_id": 100 + number, "category_id": 10 * (number % 3)})
        content = {"images": images, "annotations": annotations, "categories": categories}
        (root / f"{split}.json").write_text(json.dumps(content))
    if keypoints:
        flat = [5, 6, 2, 7.5, 8, 2, 9, 10, 1]
        content = {
            "categories": [{"id": 1, "keypoints": ["beak", "left_eye", "right_eye"]}],
            "images": [{"id": i, "file_name": image["file_name"]} for i, image in enumerate(images[:-1])],
            "annotations": [{"image_id": i, "category_id": 1, "keypoints": flat} for i in range(len(images) - 1)],
        }
        (root / "val_keypoints.json").write_text(json.dumps(content))
    return root


def folder(root: Path, *, splits: tuple[str, ...] = (), per_class: int = 12) -> Path:
    """Two class folders, with files below, beside and hidden; in split folders if asked."""
    number = 0
    for base in [root / split for split in splits] or [root]:
        for name in ("001.Red_Kite", "002.Barn_Owl"):
            for index in range(per_class):
                write_image(base / name / ("deep" if index % 2 else "") / f"{index}.png", number)
                number += 1
            write_image(base / name / ".hidden.png")
            (base / name / "notes.txt").write_text("not an image")
    return root


TREES = {"cub": cub, "dogs": dogs, "inaturalist": inaturalist, "folder": folder}
