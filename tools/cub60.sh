#!/bin/sh
# Train two classifiers and a parts detector on CUB photographs, then compare auxiliaries: what docs/results shows.
#
#   tools/cub60.sh CUB_FOLDER WEIGHTS_FOLDER OUT_FOLDER
#
# Two chains run side by side, one thread each, because two single-threaded processes get more out of two cores than
# one process with two threads. Killed at any moment, the same command goes on.
set -eu
cub=$1 weights=$2 out=$3
partswap=${PARTSWAP:-$(cd "$(dirname "$0")/.." && pwd)/.venv/bin/partswap}
export OMP_NUM_THREADS=1 PARTSWAP_CACHE="$out/cache"
mkdir -p "$out"

timed() { # name command...: keep what it prints, and its seconds
    name=$1
    shift
    begun=$(date +%s)
    "$@" >>"$out/$name.log" 2>&1
    echo "$name $(($(date +%s) - begun))" >>"$out/times.txt"
}

train() { # name architecture weights-file flags...
    name=$1 arch=$2 start=$3
    shift 3
    timed "$name" "$partswap" train classifier --data cub --path "$cub" --arch "$arch" --start "$weights/$start" \
        --resize 256 --label-smoothing 0.1 --schedule cosine --out "$out/$name" "$@"
}

auxiliaries() { # the rows of the table, for a command that takes --auxiliary
    resnet=imagenet_resnet50_v1=$weights/resnet50_v1_imagenet.safetensors
    "$@" --auxiliary classifier --auxiliary "$resnet" --auxiliary "$resnet@layer4.0" \
        --auxiliary "efficientnet_lite0=$weights/tf_efficientnet_lite0_imagenet.safetensors" \
        --auxiliary augnet --auxiliary "parts=$out/parts"
}

[ -e "$out/begun" ] || date +%s >"$out/begun" # of the first attempt, if there are several
train vgg16 vgg16 vgg16_features_imagenet.safetensors \
    --freeze features.23 --views 4 --epochs 12 --optimizer adamw --lr 1e-4 --weight-decay 0.05 --pooled-start &
vgg16=$!
(
    train resnet50 resnet50_v1 resnet50_v1_imagenet.safetensors \
        --freeze layer3 --views 8 --epochs 16 --lr 0.01 --new-lr 0.05
    timed parts "$partswap" train parts --data cub --path "$cub" --arch resnet50_v1 \
        --start "$weights/resnet50_v1_imagenet.safetensors" --resize 256 --freeze layer3 --views 8 --epochs 8 \
        --lr 0.01 --schedule cosine --out "$out/parts"
    # The table's features do not depend on the classifier, as long as it sees the same pixels on the same grid.
    timed encode auxiliaries "$partswap" encode --data cub --path "$cub" --model "$out/resnet50"
) &
resnet50=$!
wait "$vgg16"
wait "$resnet50"
export OMP_NUM_THREADS=2
timed auxiliary auxiliaries "$partswap" paper auxiliary --data cub --path "$cub" --model "$out/vgg16" --queries 200 \
    --out "$out/auxiliary"
echo "all $(($(date +%s) - $(cat "$out/begun")))" >>"$out/times.txt"
cat "$out/times.txt"
