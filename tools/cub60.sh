#!/bin/sh
# Train the classifiers and the parts detector on CUB photographs, then compare auxiliaries: what docs/results shows.
#
#   tools/cub60.sh CUB_FOLDER WEIGHTS_FOLDER OUT_FOLDER
#
# Two chains run side by side, one thread each, because two single-threaded processes get more out of two cores than
# one process with two threads. Killed at any moment, the same command goes on.
set -eu
cub=$1 weights=$2 out=$3
here=$(cd "$(dirname "$0")/.." && pwd)
partswap=${PARTSWAP:-$here/.venv/bin/partswap}
export OMP_NUM_THREADS=1 PARTSWAP_CACHE="$out/cache"
mkdir -p "$out"

timed() { # name command...: append the command's seconds to times.txt
    name=$1; shift
    begun=$(date +%s)
    "$@" >>"$out/$name.log" 2>&1
    echo "$name $(($(date +%s) - begun))" >>"$out/times.txt"
}

begun=$(date +%s)
(
    timed vgg16 "$partswap" train classifier --data cub --path "$cub" --arch vgg16 \
        --start "$weights/vgg16_features_imagenet.safetensors" --freeze features.23 --views 4 --epochs 12 \
        --optimizer adamw --lr 1e-4 --weight-decay 0.05 --schedule cosine --label-smoothing 0.1 --out "$out/vgg16"
) &
vgg=$!
(
    timed resnet50 "$partswap" train classifier --data cub --path "$cub" --arch resnet50_v1 \
        --start "$weights/resnet50_v1_imagenet.safetensors" --freeze layer2 --views 4 --epochs 12 \
        --lr 0.01 --schedule cosine --label-smoothing 0.1 --mixup 0.3 --out "$out/resnet50"
    timed parts "$partswap" train parts --data cub --path "$cub" --arch resnet50_v1 \
        --start "$weights/resnet50_v1_imagenet.safetensors" --freeze layer3 --views 4 --epochs 8 \
        --lr 0.01 --schedule cosine --out "$out/parts"
) &
resnet=$!
wait "$vgg"
wait "$resnet"
timed auxiliary "$partswap" paper auxiliary --data cub --path "$cub" --model "$out/vgg16" \
    --auxiliary classifier \
    --auxiliary "imagenet_resnet50_v1=$weights/resnet50_v1_imagenet.safetensors" \
    --auxiliary "imagenet_resnet50_v1=$weights/resnet50_v1_imagenet.safetensors@layer4.0" \
    --auxiliary "efficientnet_lite0=$weights/tf_efficientnet_lite0_imagenet.safetensors" \
    --auxiliary augnet --auxiliary "parts=$out/parts" --out "$out/auxiliary"
echo "all $(($(date +%s) - begun))" >>"$out/times.txt"
cat "$out/times.txt"
