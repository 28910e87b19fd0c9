"""Statements of people that no program prints: how each is recognised, under the kind of what it says."""

from __future__ import annotations

from gpustack.matrix.subjects.messages import Wording

STATEMENTS = (
    # Docker comes from a snap.
    Wording(kind="docker-snap", has="docker.snap", match=r"\bdocker\.snap\b"),
    Wording(kind="docker-snap", has="snap.docker", match=r"\bsnap\.docker\b"),
    # nvcc and PyTorch are said to be of two CUDA versions.
    Wording(
        kind="cuda-mismatch-said",
        has="nvcc",
        match=r"nvcc\b[^\n]{0,30}?(?P<found>\d{1,2}\.\d)\b[^\n]{0,30}?\b(?:py)?torch"
        r"(?:\.version\.cuda)?\b[^\n]{0,20}?(?P<torch>\d{1,2}\.\d)\b[^\n]{0,80}?(?:mismatch\w*|not match"
        r"|n't match|differ\w*|incompatib\w*)[^\n]*",
    ),
    Wording(
        kind="cuda-mismatch-said",
        has="nvcc",
        match=r"\bnvcc\b[^\n?]{0,30}?(?P<found>(?P<major>\d{1,2})\.\d)\b[^\n?]{0,30}?\b(?:but|while|whereas"
        r"|although)\b[^\n?]{0,20}\b(?:py)?torch\b[^\n?]{0,40}?\b(?:CUDA ?|cu)(?P<torch>(?!"
        r"(?P=major))\d{1,2}\.?\d)\b(?![^\n]*\b(?:works?|fine|warn))",
    ),
    # A toolkit is said not to know an architecture.
    Wording(
        kind="nvcc-unknown-arch",
        has="know",
        match=r"(?:(?:nvcc|CUDA(?: toolkit)?)(?:'s)?(?: from| of)?(?: CUDA)?(?: (?:version )?(?P<cuda>\d+\.\d+)"
        r"(?:\.\d+)?)?(?:'s)?)(?: nvcc| toolkit)? (?:does not|doesn't|cannot|can't"
        r"|did not) know[^\n]{0,40}?(?P<arch>(?:compute|sm)_\d+[af]?)\b",
    ),
    # No GPU was given to the container, by word.
    Wording(
        kind="gpu-not-passed-said",
        has="gpus",
        match=r"\b(?:without|no|missing|forgot(?:ten)?|lack\w*)\b (?:the |a )?(?:option |setting |line "
        r"|key )?[\x60\x22]?gpus ?[:=] ?[\x27\x22]?all\b",
    ),
    # NVML does not start.
    Wording(
        kind="nvml-no-start",
        has="failed to initialize nvml",
        match=r"Failed to initialize NVML\b(?=[.,;)]|[ \t]*$)",
    ),
    # Root can what the user cannot.
    Wording(
        kind="works-as-root",
        has="sudo",
        match=r"\bsudo (?:sycl-ls|clinfo|rocminfo|vainfo|xpu-smi|rocm-smi|ollama|python3?)\b[^\n]{0,20}\b"
        r"(?:shows?|lists?|works?|finds?|sees?|detects?|runs? fine)\b",
    ),
    # Which GPUs programs may see, by word.
    Wording(
        kind="visible-devices",
        has="_visible_devices",
        match=r"(?P<variable>(?:CUDA|HIP|ROCR)_VISIBLE_DEVICES)[\x60\x22\x27]? (?:(?:is|was|has been|env"
        r"(?:ironment)?|variable|being|already) ){0,3}(?:set )?to [\x60\x22\x27]?(?P<devices>(?:-?\d+"
        r"|GPU-[\w-]+|MIG-[\w/-]+|NoDevFiles|all|none|auto)(?: ?, ?(?:-?\d+|GPU-[\w-]+|MIG-[\w/-]+))*)"
        r"(?![\w]|\.\w)",
    ),
    # How many GPUs are there, by word.
    Wording(
        kind="gpu-count",
        has="only has",
        match=r"\bonly has (?P<count>one|\d) (?:NVIDIA |GeForce |Tesla |Quadro )*(?:GPU|RTX|GTX|TITAN"
        r"|[AHLVTPK]\d{2,3}|GT)\b",
    ),
    Wording(
        kind="gpu-count",
        has="single",
        match=r"(?<![\d.])\b(?:with |has |have |on |of )?an? (?P<count>single) (?:NVIDIA |GeForce |Tesla "
        r"|Quadro )*(?:RTX|GTX|TITAN|[AHLVTPK]\d{2,3}|GT)\b",
    ),
    # A package of the Linux driver was installed.
    Wording(
        kind="linux-driver-package",
        has="nvidia-",
        match=r"\b(?P<package>(?:lib)?nvidia-(?:utils|driver|compute|compute-utils|headless"
        r"|dkms)-\d{3}[\w-]*)\b (?:(?:is|was|are|were|got|has been|had been) )?installed\b",
    ),
    # Another libcuda than that of the driver is mentioned.
    Wording(
        kind="wsl-other-libcuda-said",
        has="libcuda.so",
        match=r"\b(?P<path>libcuda\.so[\w.]* (?:from|of|out of) (?:the |a )?(?:cuda-compat\S*|conda\b|toolkit\b"
        r"|stubs?\b|compat\b))",
    ),
    # Another libcuda is found before that of WSL, by word.
    Wording(
        kind="wsl-other-libcuda-said",
        has="libcuda.so",
        match=r"(?P<path>/[\w./+-]*libcuda\.so[\w.]*) (?:(?:is|was|gets|being) )?(?:found|loaded|used|picked"
        r"|taken|resolved|chosen|comes?|listed|wins)\b[^\n]{0,24}\b(?:before|instead of|first|over|in "
        r"(?:the )?place of|rather than|ahead of)\b",
    ),
    Wording(
        kind="wsl-other-libcuda-said",
        has="/usr/lib/wsl",
        match=r"\blibcuda\.so[\w.]*\b[^\n;?]{0,24}\b(?:loaded|found|taken|resolved|picked(?: up)?|comes|used) from "
        r"(?P<path>/(?!usr/lib/wsl)[\w./+-]+) (?:instead of|rather than|before|(?:and )?not from) /usr/lib/wsl",
    ),
    # Without LD_LIBRARY_PATH it is said to work.
    Wording(
        kind="ld-library-path-blamed-said",
        has="ld_library_path",
        match=r"\b(?:without|unset(?:ting)?|clear(?:ed|ing)?|empt(?:y|ied|ying)|remov(?:e|ed|ing)|dropp?(?:ed"
        r"|ing)?) (?:the )?(?:variable )?LD_LIBRARY_PATH\b[^\n.;?]{0,40}\b(?:it )?(?:works?|worked|fix\w*"
        r"|solv\w*|help\w*|resolv\w*)\b|\b(?:works?|worked|fixed|solved|resolved)\b[^\n.;?]{0,24}\b"
        r"(?:without|by (?:unsetting|clearing|removing)|after (?:unsetting|clearing|removing"
        r"|unset)) LD_LIBRARY_PATH\b",
    ),
    # Two copies of PyTorch are mentioned.
    Wording(
        kind="torch-twice",
        has="torch",
        match=r"\b(?:py)?torch (?P<one>\d+\.\d+[\w.+]*\w) (?:in|from|under|at) (?!one\b"
        r"|an? )[^\n,;?]{1,40}? and (?:py)?torch (?P<two>\d+\.\d+[\w.+]*\w) (?:in|from|under|at) "
        r"(?!another|an?other|the other)",
    ),
    Wording(
        kind="torch-twice",
        has="torch",
        match=r"\b(?:pip3?|conda|mamba|uv)\b[^\n?]{0,30}\b(?:py)?torch(?:==| )"
        r"(?P<two>\d+\.\d+\.\d+[\w+]*)[^\n?]{0,20}\b(?:but|while|whereas|yet)\b[^\n?]{0,40}\b(?:imports?"
        r"|imported|loads?|loaded|uses|picks|gets)\b[^\n?]{0,20}?(?P<one>\d+\.\d+\.\d+[\w+]*)[^\n]*",
    ),
    # A copy of PyTorch was taken away.
    Wording(
        kind="torch-uninstalled",
        has="uninstall",
        match=r"\bpip3? uninstall(?:ing)?(?: -y)? torch\b[^\n?\d]{0,30}\b(?:removed|removes|uninstalls"
        r"|uninstalled|took away|takes away|finds|found) (?:only )?(?:torch )?(?P<version>\d+\.\d+[\w.+]*)",
    ),
    # A package list is said to show this PyTorch.
    Wording(
        kind="torch-listed-said",
        has="torch",
        match=r"\b(?:pip3?|conda|mamba|uv pip)(?: list| show| freeze)?`? (?:torch )?(?:says|shows?|gives?"
        r"|displays?|reports?|lists?|tells?|claims?|prints?|has|:)[^\n]{0,40}?(?:py)?torch\b[^\n]{0,30}?\b"
        r"(?P<version>\d+\.\d+\.\d+(?:\+\w+)?)",
    ),
    # JAX and its plugin are said to be of two releases.
    Wording(
        kind="jax-plugin-version",
        has="jaxlib",
        match=r"\bjaxlib(?: version|==)? ?\(?(?P<jaxlib>\d+\.\d+\.\d+)\)? (?:is |are )?(?:not compatible"
        r"|incompatible|mismatch\w*|does not match|does not go) (?:with )?(?:the )?(?:installed )?"
        r"(?P<plugin>jax[-_]cuda\d\d[-_](?:plugin|pjrt))(?: version|==)? ?\(?(?P<found>\d+\.\d+\.\d+)",
    ),
    # The import of a module does not find a CUDA library.
    Wording(
        kind="extension-import",
        has="error: lib",
        match=r"\b(?:from|import) (?P<module>[A-Za-z_]\w*)[\w., ]*[^\n]{0,80}\n"
        r"(?:[^\n]{0,200}\n){0,3}?[^\n]{0,40}(?:ImportError|OSError): (?P<soname>lib(?:cudart|cublas"
        r"|cublasLt|nvrtc|cusparse|cusolver|cufft|cupti|nvJitLink)\.so\.[\d.]*\d)$",
    ),
    # The setting of the firmware for large memory windows is mentioned.
    Wording(
        kind="bios-above-4g",
        has="above 4",
        match=r"(?:Memory[- ]Mapped I/?O|MMIO|64[- ]?bit (?:BARs?|MMIO|PCI)|PCI(?:e| 64-?bit)?(?: Resource)?"
        r"(?: Allocation| Handling| Decoding)?)s? above 4 ?G(?:B|iB)?\b[^\n]{0,30}?(?P<state>disabled"
        r"|\boff\b|not enabled|not (?:set|available|there|possible)|missing|enabl\w*|turn\w* on|\bon\b"
        r"|fix\w*|solv\w*|help\w*)",
    ),
    # A link of PCI Express cannot go back to its speed.
    Wording(
        kind="link-stays-down",
        has="link",
        match=r"\blink\b(?:[^\n.;]|\.(?=\d)){0,80}\b(?:can(?:no|.)t|does not|doesn.t|never|fail\w* to|unable to"
        r"|refus\w+ to|won.t|will not) (?:\w+ ){0,2}?(?:recover\w*|returns?|comes? back|go(?:es)? (?:back"
        r"|up)|gets? back|trains? (?:back|up)|speeds? up|ramps? up|scale (?:back )?up|upshift)",
    ),
    # The module of the driver is said to stay out.
    Wording(
        kind="module-out-said",
        has="would",
        match=r"(?:nvidia|driver|module)[^\n.,]{0,24} (?:would not|wouldn't) (?:load|start|insert|work"
        r"|initiali\w+)",
    ),
    # The headers of a kernel are missing, without which no module can be built for it.
    Wording(
        kind="dkms-headers",
        has="headers",
        match=r"\blinux\d{2,3}(?:-\w+)?-headers[^\n]{0,60}(?:missing|not (?:installed|found|present|available)"
        r"|n't installed|were removed)|(?:missing|without|no|forgot|install\w*) (?:the )?linux\d{2,3}"
        r"(?:-\w+)?-headers",
    ),
    # The loader found no such library.
    Wording(
        kind="missing-library",
        has="error: lib",
        match=r"(?:\bimport [^\n]*|\bFile \x22[^\n]*)\n(?:[^\n]{0,200}\n){0,2}?[^\n]{0,40}(?:ImportError"
        r"|OSError): (?P<soname>lib(?:cudart|cublas|cublasLt|cufft|cusparse|cusolver|curand|nvrtc"
        r"|nvJitLink|cudnn)\.so\.[\d.]*\d)$",
    ),
    # The cuDNN that was loaded is older than the framework was built with.
    Wording(
        kind="cudnn-loaded-older",
        has="cudnn",
        match=r"\b(?:built|compiled|build) (?:with|against|for|using) cuDNN(?: version)? v?"
        r"(?P<built>\d{1,2}\.\d+(?:\.\d+)*)[^\n]{0,40}?(?:\bbut\b|\bwhile\b|,|;|whereas)[^\n]{0,30}?"
        r"(?:cuDNN(?: version)? )?v?(?P<found>\d{1,2}\.\d+(?:\.\d+)*)[^\n]{0,20}?(?:loaded|found|installed"
        r"|used|at run ?time|present|here)",
    ),
    Wording(
        kind="wsl-other-libcuda-said",
        has="/usr/lib/wsl/lib",
        match=r"(?P<path>/(?!usr/lib/wsl)[\w./+-]*libcuda\.so[\w.]*)(?: \([^()\n]{1,30}\))? (?:before|above"
        r"|ahead of|in front of) (?:that (?:of|in) |the one (?:of|in) )?/usr/lib/wsl/lib\b",
    ),
    # A list of the modules in memory is said to show nouveau.
    Wording(
        kind="nouveau-said",
        has="lsmod",
        match=r"\blsmod\b[^\n]{0,12}\bnouveau\b[\x60\x22\x27]?(?: (?:shows?|lists?|finds?|says|returns|gives|prints)\b"
        r"(?! (?:nothing|no\b|it is not|empty))| ?(?:->|=>|:) ?nouveau \d{4,})",
    ),
    # No GPU is reserved in a compose file, by word.
    Wording(
        kind="gpu-not-passed-said",
        has="reservations",
        match=r"\b(?:lacks?|lacking|without|no|missing|forgot(?:ten)?) (?:the |a |any )?(?:deploy\.)?(?:resources\.)?"
        r"reservations(?:\.devices)?\b",
    ),
    # A link of PCI Express is said to be narrower than its slot.
    Wording(
        kind="link-lanes-said",
        has="x16",
        match=r"\bx ?(?P<most>16) (?:slot|card|GPU|link)\b[^\n;?]{0,16}\b(?:runs?|running|stuck|negotiat\w+|limited"
        r"|trained|comes? up|is only)\b[^\n;?]{0,24}\bx ?(?P<width>1|2|4)\b",
    ),
    # A list of the device nodes is said to be empty.
    Wording(
        kind="nodes-absent-said",
        has="/dev/nvidia",
        match=r"\bls (?:-\S+ )?/dev/nvidia[*?]?[\x60\x22\x27]? (?:finds|shows|gives|lists|prints|returns"
        r"|says) (?:nothing|none|no (?:such )?(?:file|device|node)s?)\b",
    ),
    # The headers of one of Arch's kernels are missing, by word.
    Wording(
        kind="dkms-headers",
        has="-headers",
        match=r"\b(?:no|without|missing|lacks?|lacking|forgot(?:ten)?) (?:the )?linux-(?:zen|lts|hardened|rt|xanmod"
        r"|cachyos)[\w-]*-headers\b",
    ),
    # A compose file is said to ask for no GPU.
    Wording(
        kind="gpu-not-passed-said",
        has="compose",
        match=r"\bcompose(?:\.ya?ml| file)? (?:has|had|with) no (?:deploy|gpus?|devices?)\b",
    ),
    # A container is said to have no nvidia-smi.
    Wording(
        kind="container-no-smi",
        has="nvidia-smi",
        match=r"\bnvidia-smi (?:inside|in (?:it|there|the container))(?: the container)? (?:says|gives|is|was|:) "
        r"(?:command )?not found\b",
    ),
    Wording(
        kind="works-as-root",
        has="as root",
        match=r"\b(?:but |while |and )?as root,? (?:it|clinfo|sycl-ls|rocminfo|rocm-smi|xpu-smi|vainfo) (?:does )?"
        r"(?:lists?|shows?|finds?|sees?|works?|detects?|reports?)\b",
    ),
    # The headers of a kernel are missing.
    Wording(
        kind="dkms-headers",
        has="headers",
        match=r"\b(?:pve|proxmox)-headers(?:-[\w.-]+)?[\x60\x22\x27]?[^\n.;]{0,16}(?:missing|not (?:installed"
        r"|found|present|available|there))|\b(?:no|without|missing|lacks?|forgot(?:ten)?) (?:the )?(?:pve|proxmox)"
        r"-headers\b"
        r"|\blinux-(?:zen|lts|hardened|rt|cachyos)\b[^\n.]{0,30}\bonly (?:the )?(?:package )?linux-headers\b",
    ),
    # The cuDNN that was loaded is older than the framework was built with.
    Wording(
        kind="cudnn-loaded-older",
        has="cudnn",
        match=r"\bcuDNN(?: version)? v?(?P<found>\d{1,2}\.\d+(?:\.\d+)*) (?:is |was |gets )?(?:loaded|found|installed"
        r"|used|present|here|at run ?time)[^\n]{0,8}(?:\bbut\b|\bwhile\b|,|;|whereas|and)[^\n;]{0,40}?\b(?:built"
        r"|compiled)(?: (?:with|against|for|using))?(?: cuDNN)? v?(?P<built>\d{1,2}\.\d+(?:\.\d+)*)",
    ),
    # A list of packages has one of the Linux driver.
    Wording(
        kind="linux-driver-package",
        has="nvidia",
        match=r"\b(?:dpkg|apt list|rpm -q|pacman -Q)\b[^\n:]{0,40}:[^\n]{0,60}?\b(?P<package>(?:lib)?nvidia-(?:driver"
        r"|utils|compute)-\d{3}[\w-]*)",
    ),
    Wording(
        kind="dkms-headers",
        has="headers",
        match=r"\bkernel (?P<kernel>[2-9]\.\d+[\w.+~-]+)[^\n;.]{0,20}\b(?:kernel )?headers (?:are |is )?(?:missing"
        r"|absent|not (?:installed|found|there|present))|\b(?:did not|didn.t|never|does not|doesn.t) (?:install|pull"
        r"|bring)(?:ed)?(?: in)? (?:the )?(?:kernel |linux |matching )*headers\b",
    ),
)
