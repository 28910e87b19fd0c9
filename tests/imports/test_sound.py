"""Texts that show a GPU at work are judged `healthy`; whatever else is in them may be a mistake in the user's code."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpustack.diagnose.engine import judge
from gpustack.model.report import Health
from tests.counting import each
from tests.imports.reading import MATRIX, read

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PRINTED: Mapping[str, Sequence[str]] = tomllib.loads(Path(__file__).with_name("printed.toml").read_text("utf-8"))
CUDA = "RuntimeError: The NVIDIA driver on your system is too old (found version 11040)."


@each(
    "text",
    [
        ">>> torch.cuda.is_available()\nTrue\n>>> torch.ones(2).cuda()\ntensor([1., 1.], device='cuda:0')",
        "[PhysicalDevice(name='/physical_device:GPU:0', device_type='GPU')]",
        ">>> jax.devices()\n[CudaDevice(id=0), CudaDevice(id=1)]",
        "llm_load_tensors: offloaded 33/33 layers to GPU\neval time = 20.10 ms per token",
        'level=INFO msg="inference compute" id=GPU-1 library=cuda variant=v12 compute=8.9 driver=12.4',
        "Created device /job:localhost/replica:0/task:0/device:GPU:0 with 9643 MB memory:  -> device: 0",
        "Creating TensorFlow device (/gpu:0) -> (device: 0, name: GeForce GTX 980 Ti, pci bus id: 0000:c3:00.0)",
        "NAME      ID      SIZE      PROCESSOR      UNTIL\nllama3:8b 365c0b  9.2 GB  100% GPU  4 minutes from now",
        "llama3:70b 365c0b  41 GB  48%/52% CPU/GPU  4 minutes from now",
        "RESOURCE_EXHAUSTED: Failed to allocate request for 176.00MiB (184549376B) on device ordinal 0",
        "RuntimeError: Resource exhausted: Out of memory while trying to allocate 4800000000 bytes.",
        "NLLLoss2d.cu:95: nll_loss2d: block: [0,0,0], thread: [32,0,0] Assertion `t >= 0 && t < n_classes` failed.",
        "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 205.4",
        "deviceQuery, CUDA Driver = CUDART, CUDA Driver Version = 12.4, NumDevs = 1\nResult = PASS",
        "tensor([1.], device='xpu:0')",
        "GPU KV cache size: 51,200 tokens",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has 7.79 GiB in total",
        "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!",
        "In spite of the message the container uses the GPU without trouble.",
        "Apart from this line everything works without problems. What does it mean for the GPU?",
        "All cards are busy: GPU load between 95 and 100 %. The tool warns of a low-power state.",
        "amdgpu 0000:19:00.0: psp v11.0: Failed to load firmware\nTwo Radeon VII that compute fine.",
        "Decode batch, #running-req: 5, cuda graph: True, gen throughput (token/s): 144.95, #queue-req: 0",
        "global_step=40, RunningAvgSamplesPerSec=83.48, MemAllocated=17.94GB, MaxMemAllocated=54.06GB",
        "training from scratch with (gpu(0),gpu(1))\nEpoch[0] Batch [0-20]\tSpeed: 6.31 samples/sec\tLoss=7951.88",
        "UserWarning: Attempting to use hipBLASLt on an unsupported architecture! Overriding blas backend to hipblas",
        "W0000 gpu_timer.cc:114] Skipping the delay kernel, measurement accuracy will be reduced",
        "      0/99     21.5G   0.07797   0.02942        21      1280:  56% 83/148 [07:22<05:34, 5.14s/it]\nKeyError",
        "Sizes of tensors must match (77, 154), is the prompt too long? A1111 does 18 it/s here on a 4090 with others",
        "RTX A6000, nerfstudio: Rays / Sec 1.21 M, step 22300 (74.33%). PSNR 14 et plein de floaters. Mes poses ?",
        "On the H20\nFav2: 0.840ms, 81.8 TFLOPS\nFav3: 0.572ms, 120.1 TFLOPS",
        "13B model, 22 layers on the GPU\nGenerating (1025 / 1024 tokens)\nTotal:26.96s (12.93T/s)",
        "cu([1])[1]\nInvocation of getindex resulted in scalar indexing of a GPU array.",
        "cudnn_algoreg-inl.h:97: Running performance tests to find the best convolution algorithm, this can",
        "Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to 256.0\nShould I care?",
        "XGBoost is running on: cuda:0, while the input data is on: cpu.",
        "loaded partially 7014.618897003174 7013.986389160156 0\nPrompt executed in 17.20 seconds",
        "VAE load device: cuda:0, offload device: cpu, dtype: torch.float32\n4/4 [00:20<00:00,  5.07s/it]",
        "max_total_num_tokens=2086558, context_len=256000, available_gpu_mem=17.22 GB",
        "Error: System is out of GPU and shared host memory",
        "train with paddle 2.0.2 and device CUDAPlace(0)\nloss: 4.88, ips: 16.05",
        "Unsloth: Num GPUs = 1. Max memory: 14.748 GB. Platform: Linux.",
        "QLoRA on a 3090, 23.1 / 24 GB, 2.4 s/it, the model repeats itself afterwards.\n{'loss': 0.0003, 'epoch': 25}",
        "gpt4all answers nicely but my 4070 makes 12 tokens/s with 20 layers on it, how many do you put on yours?",
        "Cyberpunk at 58 fps with the RTX 3080, the map menu flickers since patch 2.1. Other games are smooth.",
        *PRINTED["proofs"],
    ],
)
def test_a_gpu_that_is_seen_at_work_is_healthy(text: str) -> None:
    assert judge(read(text), MATRIX).verdict.status is Health.HEALTHY


@pytest.mark.parametrize(
    "text",
    [
        "offloaded 0/33 layers to GPU",
        "llama3:8b 365c0b  9.2 GB  100% CPU  4 minutes from now",
        "llama3:8b 365c0b  9.2 GB  100%/0% CPU/GPU  4 minutes from now",
        "RTX 4090, is it good?",
        "RX 7900 XTX, is it good?",
        "  Name:                    gfx1100\nHSA_STATUS_ERROR_INVALID_ISA",
        "PHYSICAL_DEVICE_TYPE_DISCRETE_GPU\nbut torch does not see the GPU",
        "PHYSICAL_DEVICE_TYPE_CPU\ndeviceName = llvmpipe",
        "0 GPUs found.",
        "# Avg bus bandwidth    : 0",
        "tensor([1.])",
        "Result = FAIL",
        "| CUDA Main Library         | Pass |\n| Memory                    | Fail |",
        "GPU available: True (cuda), used: False",
        "  Epoch    GPU_mem   box_loss\n  1/100         0G      1.154",
        "paddlepaddle-gpu 2.4.2\nCompiled with WITH_GPU, but no GPU found in runtime.\nGPU 0: Tesla P40",
        f"[CudaDevice(id=0)]\n{CUDA}",
        "tensor([1.], device='cuda:0')\nNCCL WARN Bootstrap : no socket interface found",
        ">>> torch.cuda.is_available()\nTrue\nin the service:\n>>> torch.cuda.is_available()\nFalse",
        "GPU available: True (cuda), used: True\nLOCAL_RANK: 0 - CUDA_VISIBLE_DEVICES: [0]\nthen it hangs forever",
        "offloaded 33/33 layers to GPU\nsuddenly the GPU disappears from nvidia-smi until I reboot",
        "tensor([1.], device='cuda:0')\nafter some hours the machine freezes",
        "GPU KV cache usage: 84.9%\nafter an hour: CUDA error: unspecified launch failure",
        "2x RTX 4090, GPU KV cache size: 51,200 tokens, all_reduce hangs with tensor parallel 2",
        "[CudaDevice(id=0)]\nfailed: CUDNN_STATUS_INTERNAL_ERROR",
        "Is CUDA available: True\nthe screen goes black under load and the fans go to 100%",
        "ollama ps: 100% GPU, but task manager shows 0% GPU and the CPU at 100%",
        "tensor([1.], device='cuda:0')\nRuntimeError: CUDA error: operation not supported",
        "tensor([1.], device='cuda:0') works as root, as user: No CUDA GPUs are available",
        "|    0   N/A  N/A      2211      C   python3     9120MiB |\nin the container torch.cuda.is_available() False",
        "GPU KV cache size: 51,200 tokens\nncclSystemError: System call (e.g. socket, malloc) failed",
        "[CudaDevice(id=0)]\nthe second run after suspend fails until I reload nvidia_uvm",
        "GPU available: True (cuda), used: True\nWatchdog caught collective operation timeout: WorkNCCL(SeqNum=30",
        "Device: cuda:0 NVIDIA GeForce RTX 3060 : native\nblue screen: VIDEO_TDR_FAILURE",
        "total VRAM used: 0.00 MiB (model: 0.00 MiB)",
        "Node(s) placed on [CPUExecutionProvider]. Number of nodes: 875",
        ">>> torch.ones(2, device='cuda:0').to('cuda:1')\ntensor([0., 0.], device='cuda:1')",
        "tensor([1.], device='cuda:0')\nOn cuda:0 the loss is fine, on cuda:1 I get NaN with the same seed.",
        "offloaded 33/33 layers to GPU\ntokens per second dropped from 80 to 9 since the driver update",
        "GPU 0: NVIDIA GeForce RTX 3090 (UUID: GPU-1)\nMy second 3090 is not there any more since I moved it.",
        "Device: cuda:0 NVIDIA GeForce RTX 4070 Ti : cudaMallocAsync\nCUDA error: resource already mapped",
        "With one GPU all is right: 7.3 ns/day on the GPU. With --device=0,1,2,3 the coordinates are nan.",
        "NVIDIA-SMI 470.74   Driver Version: 470.74   CUDA Version: 11.4\nDevices:\nIt finds none on my RTX3080.",
        "Why does tf.config.list_physical_devices('GPU') get [] while torch.cuda.is_available() is True?",
        'op: [[Node: a = B[_device="/job:localhost/replica:0/task:0/device:CPU:0"]]]',
        "x was explicitly assigned to /device:GPU:0 but available devices are [ /job:a/replica:0/task:0/cpu:0 ]",
        "whisper_backend_init: using CUDA backend\nCUDA error: initialization error",
        "Platform Name   NVIDIA CUDA\nNumber of devices                  0",
        "Torch detected GPU: NVIDIA GeForce RTX 4060\nRuntimeError: \"slow_conv2d_cpu\" not implemented for 'Half'",
        "Since I installed the driver it is faster, but nvidia-smi shows no process and the GPU memory is near 0%.",
        "On my laptop everything works fine. On this server the screen stays black.",
        "With driver 470 everything works fine. With 535 the screen stays black.",
        "Under Windows the card works without problems. Linux boots to a black screen.",
        "The GPU works fine until it gets hot, then the machine restarts.",
        "nvidia-smi works. Inside the container there is nothing.",
        "Games run fine. My training script aborts after some minutes, and the machine restarts.",
        "The first card works without trouble, the second one shows artifacts.",
        "It worked without problems for a year. Today nothing comes up any more.",
        "The driver works. The desktop is drawn by llvmpipe.",
        "CUDA works. Vulkan does not start.",
        "NVIDIA-SMI 460.39   Driver Version: 460.39   CUDA Version: 10.0\nAll works fine except hardware transcoding.",
        "NVIDIA-SMI 530.41.03   Driver Version: 530.41.03\nJellyfin in docker does not transcode with it.",
        "NVIDIA-SMI 550.120   Driver Version: 550.120\nno acceleration could be configured, running in CPU mode",
        "On my A100 it was 2400 tokens/s in the morning, now the same job makes 240 tokens/s.",
        "Two RTX 3090. The first makes 25 it/s, the second one 3 it/s with the same picture.",
        "NVIDIA-SMI 566.24   Driver Version: 566.24\n-1 changes nothing\nlayer   1 assigned to device CPU",
        "offloaded 33/33 layers to GPU\nTorch is not able to use GPU",
        "A model on one GPU works fine. Since I put in the second GPU, one that needs the VRAM of both prints GGGGGG.",
        "offloaded 33/33 layers to GPU\nwith one of the two cards all is fine, with both cards the output is gibberish",
        "The GTX 1080 needs 5 s an image at first, then it gets slower and slower until the training is restarted.",
        "RTX 3080 Ti: 1.10it/s, my friend's gets 18it/s with the same settings.",
        "Using device: cpu\nRTX 3060, Epoch 1/10 loss: 0.93 2.1 it/s",
        "GTX 1660: the loss is nan from the first step in half precision, in float32 it trains: 12 it/s.",
        "Speed 208.32 Mh/s gpu/0 29.36 58C 100% gpu/1 30.76 46C 100%\nFAILURE: GPU gave incorrect result!",
        "all_reduce_perf on 8 H100: # Avg bus bandwidth : 3.1. It should be 480.",
        "RTX 5090: 120 it/s, after twenty minutes a black screen and the fans at full speed.",
        "the container prints 14.2 tokens/s on the CPU, the host 95.3 tokens/s on the RTX 3090",
        "onnxruntime: Failed to create CUDAExecutionProvider. RTX 3050, 12.1 fps",
        "RX 7900 XTX 11.2 it/s; the kernel log: amdgpu: ring gfx_0.0.0 timeout",
        "The 3090 Ti reaches 3.1 it/s only when the side panel is off, otherwise it throttles at 93 C.",
        "OMP: using CUDA_VISIBLE_DEVICES=0, device=cuda\nNo running processes found\nEpoch 3 loss: 0.44 0.9 it/s",
        "A100 40GB: 14 TFLOPS in fp16, the datasheet says 312",
        "MemAllocated=0.0GB, SamplesPerSec=0.4, 8x H100",
        "NVIDIA-SMI 470.74   Driver Version: 470.74\nThe second card is not in the list.",
        "NVIDIA-SMI 470.74   Driver Version: 470.74\nPlex does its encoding on the processor.",
        "NVIDIA-SMI 470.74   Driver Version: 470.74\nhashcat lists only pocl.",
        "NVIDIA-SMI 470.74   Driver Version: 470.74\nMy kernel oopses after this.",
        "train with paddle 2.0.2 and device CPUPlace\nloss: 31.8, ips: 7\nThere is a Tesla T4 in this server.",
        "GPU KV cache usage: 0.6%\nnvidia-smi -q shows SW Power Cap Active and 210 MHz.",
        "* Device #1: pthread-Intel(R) Core(TM) i7\nSpeed.#1.........: 9189 H/s @ Accel:64 Loops:256 Thr:1 Vec:4",
        "GPU utilisation is low in training: 85 W of 350 W, HW Slowdown active, one epoch takes 3 hours.",
        "available_gpu_mem=17.22 GB\nnvidia-smi lists seven GPUs since this morning, eight are in the box.",
        "OpenMM on two Titan XP: the coordinates are nan after 2 ns. memtestG80: 45528 errors so far",
        "platform CUDA, devices 0, 1, 2: the coordinates are nan. With one of the RTX 3080 alone it runs.",
        "Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to 2\nP2P_DISABLE=1 it is right.",
        "训练时GPU利用率很低, 频率降到300MHz, 以前一个epoch只要10分钟。",
        "GPU KV cache size: 178,880 tokens\nThen nothing: all four workers sit at 100 % and no request is answered.",
        "This is the GPU trainer!!\nUsing GPU Device: pthread-AMD EPYC 7302\nmy A100 is not touched",
        "(after 1 iterations) memory (MB) | allocated: 54250.9\nOne of 16 nodes needs 9 s, its GPU 3 is at 1100 MHz.",
        "Effective GPU memory usage: 99.55% (11.688 GiB)\nnvidia-smi shows no process at all, even after a reboot.",
        "显存占用9257MB/11019MB, loss: 4.88\n跑半小时后显卡掉线",
        "GPU utilization 35 % in training, an epoch takes 50 minutes. On the A100 of a colleague: 11 minutes.",
        "The training is at 100 % GPU. Every few hours the loss jumps, memtest_vulkan reports errors.",
        "ollama ps: 100% GPU. tokens per second: 4. The 4090 draws 60 W.",
        "nvidia-smi: 22871MiB / 24576MiB, 0% util, and no process in the list. A tiny model says CUDA out of memory.",
        "Epoch 1/20 loss 0.91, 48 s/it. Training works, the 3070 is at 1 %. torch.__version__ is 2.3.1+cpu, normal?",
    ],
)
def test_what_shows_no_gpu_at_work_or_a_fault_beside_it_is_not_called_healthy(text: str) -> None:
    assert judge(read(text), MATRIX).verdict.status is not Health.HEALTHY


@each("line", PRINTED["lines"])
def test_a_line_of_error_alone_ends_with_a_cause_or_with_likely_ones(line: str) -> None:
    report = judge(read(line), MATRIX)
    assert report.verdict.root_causes or report.candidates or report.verdict.status is Health.HEALTHY


FRAGMENTS = {
    "zsh: command not found: nvidia-smi": "nvidia-driver-missing",
    "bash: nvidia-smi: Kommando nicht gefunden.": "nvidia-driver-missing",
    "nvidia-smi : commande introuvable": "nvidia-driver-missing",
    "bash: nvidia-smi: 未找到命令": "nvidia-driver-missing",
    "'nvidia-smi' is not recognized as an internal or external command,": "nvidia-driver-missing",
    "pynvml.NVMLError_LibraryNotFound: NVML Shared Library Not Found": "nvidia-driver-missing",
    "could not load NVML library: libnvidia-ml.so.1: cannot open shared object file": "nvidia-driver-missing",
    "nvcc : The term 'nvcc' is not recognized as the name of a cmdlet": "cuda-toolkit-missing",
    "bash: nvcc: Kommando nicht gefunden": "cuda-toolkit-missing",
    "  No CMAKE_CUDA_COMPILER could be found.": "cuda-toolkit-missing",
    "libdevice not found at ./libdevice.10.bc": "cuda-toolkit-missing",
    "libcublas.so.11: 无法打开共享对象文件: 没有那个文件或目录": "cuda-runtime-missing",
    "clGetPlatformIDs failed: PLATFORM_NOT_FOUND_KHR": "opencl-icd-broken",
    "hipErrorNoDevice: no ROCm-capable device is detected": "user-not-in-render-group",
    "pcieport 0000:00:01.0: AER: Corrected error received: 0000:01:00.0": "pcie-errors",
    "uvm encountered global fatal error 0x60, requiring os reboot": "gpu-recovery-needed",
    "nvidia-driver-535 : Hängt ab von: libnvidia-compute-535 (= 535.161.07) soll aber nicht installiert werden": (
        "driver-packages-conflict"
    ),
    "nvidia-driver-470 : Dépend: libnvidia-gl-470 (= 470.199.02) mais ne sera pas installé": "driver-packages-conflict",
    "UDNN_STATUS_SUBLIBRARY_VERSION_MISM": "cudnn-two-copies",
    "PTX was compiled with an unsupported tool": "ptx-newer-than-driver",
}


@each("line", FRAGMENTS)
def test_a_fragment_leads_to_what_it_mostly_means(line: str) -> None:
    report = judge(read(line), MATRIX)
    assert FRAGMENTS[line] in (*report.verdict.root_causes, *(one.id for one in report.candidates))[:1]


@pytest.mark.parametrize("line", ["No such file or directory: the", "cannot open shared object", "is not supported by"])
def test_a_part_of_several_messages_is_none_of_them(line: str) -> None:
    assert not read(line).messages


@pytest.mark.parametrize("text", ["gpu-overheat", '"dkms-build-failed"', '"id": "fabric-manager-version-mismatch",'])
def test_the_id_of_a_finding_alone_is_not_a_message_of_a_program(text: str) -> None:
    assert judge(read(text), MATRIX).verdict.root_causes == ()


IGNORED = (
    "W tensorflow: Could not load dynamic library 'cudart64_110.dll'; dlerror: cudart64_110.dll not found\n"
    "I tensorflow: Ignore above cudart dlerror if you do not have a GPU set up on your machine.\n"
)


@pytest.mark.parametrize(
    "text",
    [
        "nvcc --version says 12.4 and torch.version.cuda says 12.6, they differ. Training runs, 97 % utilization.",
        "RX 6800, 2.9 it/s, works since I exported HSA_OVERRIDE_GFX_VERSION=10.3.0. Is there a node to batch a folder?",
    ],
)
def test_what_someone_notes_of_a_gpu_at_work_blames_nothing(text: str) -> None:
    assert judge(read(text), MATRIX).verdict.root_causes == ()


@pytest.mark.parametrize(
    ("beside", "faults"),
    [("", ()), ("KeyError: 'x'", ()), ("GeForce RTX 3060, driver 531.14", ("tf-cannot-dlopen",)), ("CUDA 10.2", (1,))],
)
def test_a_runtime_that_tensorflow_does_not_need_is_not_a_fault(beside: str, faults: tuple[str, ...]) -> None:
    """The text itself says so; where a GPU or a toolkit is named, the author wants to use it."""
    assert bool(judge(read(IGNORED + beside), MATRIX).verdict.root_causes) == bool(faults)


@pytest.mark.parametrize("said", ["I don't have a GPU.", "GPU: none", "There is no NVIDIA GPU in the computer; fine."])
def test_saying_that_there_is_no_gpu_is_not_missing_one(said: str) -> None:
    line = IGNORED.partition("\n")[0]
    assert judge(read(line), MATRIX).verdict.root_causes == ("tf-cannot-dlopen",)
    assert not judge(read(f"{line}\n{said}"), MATRIX).verdict.root_causes


@pytest.mark.parametrize("said", ["torch finds no GPU in this machine", "there is no GPU in the container."])
def test_who_complains_of_no_gpu_does_not_say_that_there_is_none(said: str) -> None:
    assert judge(read(f"{IGNORED.partition(chr(10))[0]}\n{said}"), MATRIX).verdict.root_causes
