"""Statements of people that no program prints: how each is recognised, under the kind of what it says."""

from __future__ import annotations

from gpustack.matrix.subjects.messages import Wording

STATEMENTS = (
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
    # Which GPUs programs may see, by word.
    Wording(
        kind="visible-devices",
        has="_visible_devices",
        match=r"(?P<variable>(?:CUDA|HIP|ROCR)_VISIBLE_DEVICES)[\x60\x22\x27]? (?:(?:is|was|has been|env"
        r"(?:ironment)?|variable|being|already) ){0,3}(?:set )?to [\x60\x22\x27]?(?P<devices>(?:-?\d+"
        r"|GPU-[\w-]+|MIG-[\w/-]+|NoDevFiles|all|none|auto)(?: ?, ?(?:-?\d+|GPU-[\w-]+|MIG-[\w/-]+))*)"
        r"(?![\w]|\.\w)",
    ),
    Wording(
        kind="gpu-count",
        has="single",
        match=r"(?<![\d.])\b(?:with |has |have |on |of )?an? (?P<count>single) (?:NVIDIA |GeForce |Tesla "
        r"|Quadro )*(?:RTX|GTX|TITAN|[AHLVTPK]\d{2,3}|GT)\b",
    ),
    Wording(
        kind="wsl-other-libcuda-said",
        has="/usr/lib/wsl",
        match=r"\blibcuda\.so[\w.]*\b[^\n;?]{0,24}\b(?:loaded|found|taken|resolved|picked(?: up)?|comes|used) from "
        r"(?P<path>/(?!usr/lib/wsl)[\w./+-]+) (?:instead of|rather than|before|(?:and )?not from) /usr/lib/wsl",
    ),
    Wording(
        kind="torch-twice",
        has="torch",
        match=r"\b(?:pip3?|conda|mamba|uv)\b[^\n?]{0,30}\b(?:py)?torch(?:==| )"
        r"(?P<two>\d+\.\d+\.\d+[\w+]*)[^\n?]{0,20}\b(?:but|while|whereas|yet)\b[^\n?]{0,40}\b(?:imports?"
        r"|imported|loads?|loaded|uses|picks|gets)\b[^\n?]{0,20}?(?P<one>\d+\.\d+\.\d+[\w+]*)[^\n]*",
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
    # A link of PCI Express cannot go back to its speed.
    Wording(
        kind="link-stays-down",
        has="link",
        match=r"\blink\b(?:[^\n.;]|\.(?=\d)){0,80}\b(?:can(?:no|.)t|does not|doesn.t|never|fail\w* to|unable to"
        r"|refus\w+ to|won.t|will not) (?:\w+ ){0,2}?(?:recover\w*|returns?|comes? back|go(?:es)? (?:back"
        r"|up)|gets? back|trains? (?:back|up)|speeds? up|ramps? up|scale (?:back )?up|upshift)",
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
    Wording(
        kind="works-as-root",
        has="as root",
        match=r"\b(?:but |while |and )?as root,? (?:it|clinfo|sycl-ls|rocminfo|rocm-smi|xpu-smi|vainfo) (?:does )?"
        r"(?:lists?|shows?|finds?|sees?|works?|detects?|reports?)\b",
    ),
)
