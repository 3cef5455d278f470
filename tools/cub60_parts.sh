#!/bin/sh
# An auxiliary that learns the parts of CUB photographs without labels, and what it does: docs/results/parts.md.
#
#   tools/cub60_parts.sh CUB_FOLDER WEIGHTS_FOLDER OUT_FOLDER
#
# The classifiers are those that tools/cub60.sh trained. Killed at any moment, the same command goes on.
set -eu
cub=$1 weights=$2 out=$3
partswap=${PARTSWAP:-$(cd "$(dirname "$0")/.." && pwd)/.venv/bin/partswap}
export PARTSWAP_CACHE="$out/cache"

"$partswap" train auxiliary --data cub --path "$cub" --out "$out/aux" \
    --start "imagenet_resnet50_v1=$weights/resnet50_v1_imagenet.safetensors,efficientnet_lite0=$weights/tf_efficientnet_lite0_imagenet.safetensors"
cub() { # command...
    "$partswap" "$@" --data cub --path "$cub" --auxiliary "$out/aux"
}
for model in resnet50 vgg16; do
    cub paper sota --model "$out/$model" --out "$out/parts-sota-$model"
done
cub paper auxiliary --model "$out/vgg16" --queries 200 --out "$out/parts-auxiliary"
cub paper temperature --model "$out/vgg16" --queries 100 --out "$out/parts-temperature"
for method in paper partswap; do
    cub tune --model "$out/vgg16" --split train:validation --queries 40 --method "$method" --out "$out/parts-tune-$method"
done
