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
for model in resnet50 vgg16; do
    run() { # folder flags...
        folder=$1
        shift
        "$partswap" run --data cub --path "$cub" --model "$out/$model" --auxiliary "$out/aux" --out "$out/$folder" "$@"
    }
    run "parts-$model-ours" --method partswap
    run "parts-$model-paper" --method paper --set keep=0.1
done
