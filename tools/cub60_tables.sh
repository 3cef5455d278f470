#!/bin/sh
# The paper's tables and figures for the classifiers that tools/cub60.sh trained: what docs/results shows.
#
#   tools/cub60_tables.sh CUB_FOLDER WEIGHTS_FOLDER OUT_FOLDER
#
# Rows are kept in OUT_FOLDER/runs and shared by tables. Killed at any moment, the same command goes on.
set -eu
cub=$1 weights=$2 out=$3
partswap=${PARTSWAP:-$(cd "$(dirname "$0")/.." && pwd)/.venv/bin/partswap}
export PARTSWAP_CACHE="$out/cache"

table() { # model table flags...
    model=$1 name=$2
    shift 2
    begun=$(date +%s)
    "$partswap" paper "$name" --data cub --path "$cub" --model "$out/$model" --runs "$out/runs" --out "$out/tables-$model" \
        --auxiliary "imagenet_resnet50_v1=$weights/resnet50_v1_imagenet.safetensors@layer4.0" "$@" >>"$out/tables.log" 2>&1
    echo "$model $name $(($(date +%s) - begun))" >>"$out/tables.txt"
}

# All eligible images.
table vgg16 sota
table vgg16 components
table vgg16 foreground
# Some images: these have many rows.
table vgg16 temperature --queries 100
table vgg16 hard-soft --queries 200
table vgg16 selection --queries 200
table vgg16 prefilter --queries 200
table resnet50 sota
table resnet50 components
cat "$out/tables.txt"
