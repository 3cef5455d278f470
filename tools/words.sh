#!/bin/sh
# Words for counterfactuals on drawn birds and on CUB photographs: what docs/results/words.md shows.
#
#   tools/words.sh CUB_FOLDER OUT_FOLDER
#
# Classifier, parts detector and auxiliary of the photographs are those of tools/cub60.sh and tools/cub60_parts.sh.
# Killed at any moment, the same command goes on.
set -eu
cub=$1 out=$2
partswap=${PARTSWAP:-$(cd "$(dirname "$0")/.." && pwd)/.venv/bin/partswap}
export PARTSWAP_CACHE="$out/cache"

"$partswap" train parts --data aviary --arch aviary:resnet --layer layer4 --freeze layer2 --views 2 --epochs 12 \
    --lr 0.02 --schedule cosine --out "$out/aviary-parts"
"$partswap" train words --data aviary --model aviary:resnet --parts "$out/aviary-parts" --out "$out/words-aviary-resnet"
"$partswap" train words --data aviary --model aviary:vgg --parts "$out/aviary-parts" --fit-head \
    --out "$out/words-aviary-vgg"
"$partswap" train words --data cub --path "$cub" --model "$out/resnet50" --layer layer4 --parts "$out/parts" \
    --out "$out/words-cub"
# Thresholds were chosen on the aviary's images of seed 0 and 1 and on 200 of the photographs; seed 2 are other images.
"$partswap" paper language --data aviary --option seed=2 --model aviary:resnet --layer layer4 --auxiliary aviary \
    --words "$out/words-aviary-resnet" --out "$out/language-aviary-resnet"
"$partswap" paper language --data aviary --option seed=2 --model aviary:vgg --auxiliary aviary \
    --words "$out/words-aviary-vgg" --out "$out/language-aviary-vgg"
"$partswap" paper language --data cub --path "$cub" --model "$out/resnet50" --layer layer4 --auxiliary "$out/aux" \
    --words "$out/words-cub" --out "$out/language-cub"
