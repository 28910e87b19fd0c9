#!/usr/bin/env bash
# Build the peers whose sources are in FOLDER, in parallel: benchmarks/peer/build.sh FOLDER [ARCHITECTURE]
# FOLDER contains any of the checkouts nvbandwidth, babelstream, gpu-burn, gpu-benches and nccl-tests; the programs go
# to FOLDER/bin, and the compiler's output to FOLDER/bin/NAME.log. FOLDER may also contain what the machine lacks:
# boost/{include,lib} (nvbandwidth's program_options) and nvml/include.
# gpu-l2-cache is built without its hardware counters, which would need CUPTI and are not printed.
set -u
folder=$(realpath "$1") arch=${2:-sm_90} nvcc=${NVCC:-nvcc}
bin=$folder/bin
mkdir -p "$bin"
flags=(-O3 -std=c++17 "-arch=$arch" -isystem "$folder/nvml/include")
driver=$(dirname "$(ldconfig -p | awk '/libnvidia-ml.so.1 /{print $NF; exit}')")
link=(-L"$driver" -l:libnvidia-ml.so.1)
cublas=(-lcublas)
if [ -z "${WHEELS:-}" ] && ! echo '#include <cublas_v2.h>' | "$nvcc" -x cu -E - >/dev/null 2>&1; then
    # The toolkit lacks cuBLAS: use that of NVIDIA's wheels in the Python on PATH, whose folder has include and lib.
    WHEELS=$(python3 -c 'import glob, sys
for entry in sys.path:
    for name in ("cu13", "cublas"):
        for found in glob.glob(f"{entry}/nvidia/{name}/include/cublas_v2.h"):
            sys.exit(print(found.rpartition("/include/")[0]))')
fi
if [ -n "${WHEELS:-}" ]; then # the folder of NVIDIA's wheels with include and lib, if the toolkit lacks cuBLAS
    name=$(basename "$(find "$WHEELS/lib" -name 'libcublas.so.*' | sort | tail -1)")
    cublas=("-I$WHEELS/include" "-L$WHEELS/lib" -Xlinker "-rpath=$WHEELS/lib" "-l:${name:-libcublas.so.13}")
fi

try() { # NAME COMMAND...: keep the log, and report what cannot be built
    local name=$1 begun=$SECONDS
    shift
    if "$@" >"$bin/$name.log" 2>&1; then
        echo "$name: built in $((SECONDS - begun)) s"
    else
        echo "$name: NOT built, see $bin/$name.log"
    fi
}

nvbandwidth() {
    cd "$folder/nvbandwidth" || return
    for file in *.cpp *.cu json/jsoncpp.cpp; do
        "$nvcc" "${flags[@]}" -DNDEBUG '-DGIT_VERSION=""' -I. -isystem "$folder/boost/include" -c "$file" \
            -o "$bin/nvbandwidth.$(basename "$file").o" &
    done
    wait
    "$nvcc" "-arch=$arch" "$bin"/nvbandwidth.*.o -o "$bin/nvbandwidth" -L"$folder/boost/lib" -lboost_program_options \
        "${link[@]}" -l:libcuda.so.1
}
babelstream() {
    cd "$folder/babelstream/src" || return
    "$nvcc" "${flags[@]}" -forward-unknown-to-host-compiler --extended-lambda -DCUDA -DDEFAULT -DGRID_STRIDE \
        -DUNROLL_FACTOR=4 -I. -Icuda main.cpp cuda/CUDAStream.cu -o "$bin/babelstream" "${link[@]}"
}
gpu_l2_cache() {
    cd "$folder/gpu-benches/gpu-l2-cache" || return
    "$nvcc" "${flags[@]}" -DGPU_MEASURE_METRICS_H_ '-DinitMeasureMetric()=' main.cu -o "$bin/gpu-l2-cache"
}
gpu_burn() {
    cd "$folder/gpu-burn" || return
    "$nvcc" "-arch=$arch" -fatbin compare.cu -o "$bin/compare.fatbin" &&
        "$nvcc" -O3 -std=c++11 -DIS_JETSON=false gpu_burn-drv.cpp -o "$bin/gpu_burn" -l:libcuda.so.1 -L"$driver" "${cublas[@]}"
}
nccl_tests() { # NCCL is the folder with NCCL's include and lib, laid out as in the wheel nvidia-nccl-cu13
    mkdir -p "$bin/nccl/lib"
    ln -sfn "$NCCL/include" "$bin/nccl/include"
    ln -sfn "$NCCL/lib/libnccl.so.2" "$bin/nccl/lib/libnccl.so"
    make -C "$folder/nccl-tests/src" -j 8 "BUILDDIR=$bin/nccl" "NCCL_HOME=$bin/nccl" "NVCC=$nvcc" \
        "NVCC_GENCODE=-gencode=arch=compute_${arch#sm_},code=$arch" \
        os.build "$bin/nccl/all_reduce_perf" && cp "$bin/nccl/all_reduce_perf" "$bin"
}

for name in nvbandwidth babelstream gpu_l2_cache gpu_burn ${NCCL:+nccl_tests}; do
    try "$name" "$name" &
done
wait
