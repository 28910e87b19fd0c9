"""How programs are had with CUDA whose usual build is for the CPU alone, by the names that their messages give them."""

from __future__ import annotations

from dataclasses import dataclass

from gpustack.model.command import Command, either, sh
from gpustack.model.report import Fix

SOURCE = "Build it from source with CUDA switched on."


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program: its name and what to do, one of the commands being enough."""

    name: str
    text: str = SOURCE
    commands: tuple[Command, ...]
    verify: Command | None = None

    def fix(self) -> Fix:
        """Give what to do."""
        return Fix(text=self.text, commands=either(*self.commands), verify=self.verify)


OPENCV = Program(
    name="OpenCV",
    text="Its wheels have no CUDA, whatever they are called: build it from source.",
    commands=(sh("# cmake -D WITH_CUDA=ON -D OPENCV_DNN_CUDA=ON, in the source of opencv and opencv_contrib"),),
    verify=sh('python -c "import cv2; print(cv2.cuda.getCudaEnabledDeviceCount())"'),
)
# Source: each project's page on how it is installed or built (read 2026-11-21).
PROGRAMS = {
    "ctranslate2": Program(
        name="CTranslate2",
        text="Install its wheel, which has CUDA on x86-64; elsewhere build it from source (-DWITH_CUDA=ON).",
        commands=(sh("python -m pip install --force-reinstall --no-deps ctranslate2"),),
        verify=sh('python -c "import ctranslate2; print(ctranslate2.get_cuda_device_count())"'),
    ),
    "xgboost": Program(
        name="XGBoost",
        text="Install its wheel, which has CUDA on Linux and Windows (xgboost-cpu has none).",
        commands=(sh("python -m pip install --force-reinstall --no-deps xgboost"),),
        verify=sh("python -c \"import xgboost; print(xgboost.build_info()['USE_CUDA'])\""),
    ),
    "paddlepaddle": Program(
        name="PaddlePaddle",
        text="Remove paddlepaddle, and install paddlepaddle-gpu from PaddlePaddle's own index.",
        commands=(
            sh(
                "python -m pip uninstall -y paddlepaddle && python -m pip install paddlepaddle-gpu"
                " -i https://www.paddlepaddle.org.cn/packages/stable/cu126/"
            ),
        ),
        verify=sh('python -c "import paddle; paddle.utils.run_check()"'),
    ),
    "llama.cpp": Program(
        name="llama.cpp",
        text="Build it with GGML_CUDA switched on: the program itself, or its Python package.",
        commands=(
            sh("cmake -B build -DGGML_CUDA=ON && cmake --build build --config Release"),
            sh(
                'CMAKE_ARGS="-DGGML_CUDA=on" python -m pip install --force-reinstall --no-deps --no-cache-dir '
                "llama-cpp-python"
            ),
        ),
    ),
    "mxnet": Program(
        name="MXNet",
        text="The distribution mxnet is for the CPU alone: install the one named after the CUDA (mxnet-cu112).",
        commands=(sh("python -m pip uninstall -y mxnet && python -m pip install mxnet-cu112"),),
        verify=sh('python -c "import mxnet; print(mxnet.context.num_gpus())"'),
    ),
    "dgl": Program(
        name="DGL",
        text="On the package index DGL is for the CPU alone: its page gives the command for your torch and CUDA.",
        commands=(sh("# take the command of https://www.dgl.ai/pages/start.html"),),
    ),
    "lightgbm": Program(
        name="LightGBM",
        text="Its wheel has OpenCL (device_type=gpu), and no CUDA (device_type=cuda): build it for that.",
        commands=(
            sh(
                "python -m pip install --force-reinstall --no-deps --no-binary lightgbm"
                " --config-settings=cmake.define.USE_CUDA=ON lightgbm"
            ),
        ),
    ),
    "sherpa-onnx": Program(
        name="sherpa-onnx",
        text="On the package index sherpa-onnx is for the CPU alone: its page gives the wheel with CUDA.",
        commands=(sh("# take the command of https://k2-fsa.github.io/sherpa/onnx/python/install.html"),),
    ),
    "opencv": OPENCV,
    "dnn module": OPENCV,
    "the library": OPENCV,
}


def called(program: str) -> Program:
    """Give the program that a message calls so; of an unknown one only that it must be built anew."""
    unknown = Program(name=program or "The program", commands=(sh("# build it from source, as its own page says"),))
    return PROGRAMS.get(program.lower(), unknown)
