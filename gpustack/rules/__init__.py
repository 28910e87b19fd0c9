"""The rules, in the order in which they are asked. Each is a module with ``judge(facts, matrix)``.

A rule's module is named after its finding's id, and its docstring is what ``gpustack explain ID`` prints.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from gpustack.rules import (
    arch_by_ptx_only,
    arch_not_in_build,
    closed_module_unsupported_gpu,
    compat_libs_803,
    component_not_seen,
    container_cgroup_lost_devices,
    container_no_gpus_flag,
    cpu_only_build,
    cuda_bindings_newer_than_driver,
    cuda_core_bindings_mismatch,
    cuda_init_failed,
    cuda_visible_devices_invalid,
    cudnn_shadowed_by_ld_library_path,
    cudnn_too_old,
    cudnn_two_copies,
    device_nodes_not_accessible,
    dkms_build_failed,
    dkms_headers_missing,
    driver_library_mismatch,
    driver_too_old_for_cuda_build,
    fabric_manager_not_running,
    forward_compat_804,
    framework_fails_on_gpu,
    framework_import_fails,
    gpu_ecc_error,
    gpu_fell_off_bus,
    gpu_hw_slowdown,
    gpu_not_listed,
    gpu_overheat,
    gpu_passed_through,
    gpu_recovery_needed,
    gpu_stack_not_examined,
    gsp_timeout,
    jax_plugin_mismatch,
    legacy_gpu_needs_older_branch,
    libcuda_missing,
    mig_enabled_no_instance,
    module_built_for_other_kernel,
    nouveau_loaded,
    nova_loaded,
    nvidia_driver_missing,
    nvidia_module_not_loaded,
    nvidia_uvm_missing,
    nvml_init_failed,
    open_module_unsupported_gpu,
    ort_cpu_and_gpu_installed,
    pcie_link_degraded,
    ptx_newer_than_driver,
    secure_boot_key_rejected,
    several_cudnn_copies,
    stub_on_library_path,
    stub_on_loader_path,
    uvm_stale_after_suspend,
)

if TYPE_CHECKING:
    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts
    from gpustack.model.report import Finding

    Judge = Callable[[Facts, Matrix], Iterator[Finding]]

RULES: tuple[Judge, ...] = (
    gpu_fell_off_bus.judge,
    gpu_ecc_error.judge,
    gpu_recovery_needed.judge,
    gpu_overheat.judge,
    gpu_hw_slowdown.judge,
    pcie_link_degraded.judge,
    gpu_passed_through.judge,
    gpu_stack_not_examined.judge,
    dkms_headers_missing.judge,
    nouveau_loaded.judge,
    nova_loaded.judge,
    secure_boot_key_rejected.judge,
    dkms_build_failed.judge,
    module_built_for_other_kernel.judge,
    open_module_unsupported_gpu.judge,
    closed_module_unsupported_gpu.judge,
    nvidia_module_not_loaded.judge,
    nvidia_uvm_missing.judge,
    uvm_stale_after_suspend.judge,
    nvidia_driver_missing.judge,
    legacy_gpu_needs_older_branch.judge,
    driver_library_mismatch.judge,
    gsp_timeout.judge,
    fabric_manager_not_running.judge,
    compat_libs_803.judge,
    forward_compat_804.judge,
    nvml_init_failed.judge,
    gpu_not_listed.judge,
    libcuda_missing.judge,
    cuda_init_failed.judge,
    container_no_gpus_flag.judge,
    container_cgroup_lost_devices.judge,
    device_nodes_not_accessible.judge,
    mig_enabled_no_instance.judge,
    cuda_visible_devices_invalid.judge,
    stub_on_loader_path.judge,
    stub_on_library_path.judge,
    driver_too_old_for_cuda_build.judge,
    ptx_newer_than_driver.judge,
    cuda_core_bindings_mismatch.judge,
    cuda_bindings_newer_than_driver.judge,
    cudnn_shadowed_by_ld_library_path.judge,
    cudnn_too_old.judge,
    cudnn_two_copies.judge,
    several_cudnn_copies.judge,
    arch_not_in_build.judge,
    arch_by_ptx_only.judge,
    cpu_only_build.judge,
    ort_cpu_and_gpu_installed.judge,
    jax_plugin_mismatch.judge,
    framework_fails_on_gpu.judge,
    framework_import_fails.judge,
    component_not_seen.judge,
)


def explain(finding: str) -> str | None:
    """Give what a finding means, why it hurts and what to do; None where no rule has this id."""
    name = f"{__name__}.{finding.replace('-', '_')}"
    return sys.modules[name].__doc__ if any(rule.__module__ == name for rule in RULES) else None
