"""What each kind of layer is in PyTorch."""

from typing import Any, Dict, List


class Ops:
    """What each kind of layer is in torch."""

    def __init__(self, torch: Any, tensors: List[Dict[str, Any]]) -> None:
        self.torch, self.f = torch, torch.nn.functional
        self.shapes = {one["name"]: one["shape"] for one in tensors}

    def gemm(self, op: Dict[str, Any], held: Dict[str, Any]) -> Any:
        """Multiply: x times w transposed."""
        return {op["out"]: self.f.linear(held[op["source"]], held[op["weight"]])}

    def bias(self, op: Dict[str, Any], held: Dict[str, Any]) -> Any:
        """The bias, and what is applied after it."""
        out = held[op["source"]] + held[op["bias"]]
        if op["activation"] == "relu":
            out = self.f.relu(out)
        elif op["activation"] == "gelu":
            out = self.f.gelu(out, approximate="tanh")
        return {op["out"]: out}

    def conv2d(self, op: Dict[str, Any], held: Dict[str, Any]) -> Any:
        """The images lie with their channels last, and so do the weights: torch is shown them as it wants them."""
        source, weight = held[op["source"]].permute(0, 3, 1, 2), held[op["weight"]].permute(0, 3, 1, 2)
        return {op["out"]: self.f.conv2d(source, weight, padding=1).permute(0, 2, 3, 1)}

    def pool(self, op: Dict[str, Any], held: Dict[str, Any]) -> Any:
        """The largest of 2 x 2, or the mean of a channel."""
        source = held[op["source"]]
        if op["how"] == "mean":
            return {op["out"]: source.mean(dim=(1, 2))}
        return {op["out"]: self.f.max_pool2d(source.permute(0, 3, 1, 2), 2).permute(0, 2, 3, 1)}

    def layernorm(self, op: Dict[str, Any], held: Dict[str, Any]) -> Any:
        """Each row with mean 0 and variance 1."""
        source, gamma = held[op["source"]], held[op["gamma"]]
        return {op["out"]: self.f.layer_norm(source, source.shape[-1:], gamma, held[op["beta"]], op["epsilon"])}

    def split_heads(self, op: Dict[str, Any], held: Dict[str, Any]) -> Any:
        """q, k and v by head, v transposed."""
        source = held[op["source"]]
        depth = source.shape[1] // 3 // op["heads"]
        split = source.reshape(-1, op["sequence"], 3, op["heads"], depth).permute(2, 0, 3, 1, 4)
        q, k, v = (one.reshape(-1, op["sequence"], depth) for one in split)
        return {op["q"]: q, op["k"]: k, op["v"]: v.transpose(1, 2).contiguous()}

    def head_gemm(self, op: Dict[str, Any], held: Dict[str, Any]) -> Any:
        """The products of attention."""
        return {op["out"]: self.torch.bmm(held[op["left"]], held[op["right"]].transpose(1, 2))}

    def softmax(self, op: Dict[str, Any], held: Dict[str, Any]) -> Any:
        """Softmax of each row, without what lies after it."""
        source = held[op["source"]]
        scaled = source * op["scale"]
        if op["causal"]:
            rows, columns = scaled.shape[-2:]
            hidden = self.torch.ones(rows, columns, dtype=self.torch.bool, device=scaled.device).triu(1)
            scaled = scaled.masked_fill(hidden, float("-inf"))
        return {op["out"]: self.f.softmax(scaled, dim=-1)}

    def merge_heads(self, op: Dict[str, Any], held: Dict[str, Any]) -> Any:
        """The heads side by side again."""
        source = held[op["source"]]
        every, sequence, depth = source.shape
        merged = source.reshape(every // op["heads"], op["heads"], sequence, depth).transpose(1, 2)
        return {op["out"]: merged.reshape(-1, op["heads"] * depth)}

    def residual(self, op: Dict[str, Any], held: Dict[str, Any]) -> Any:
        """The sum of two."""
        return {op["out"]: held[op["left"]] + held[op["right"]]}

    def do(self, op: Dict[str, Any], held: Dict[str, Any]) -> None:
        """Do one layer: give the tensors that it writes."""
        held.update(getattr(self, op["kind"].replace(" ", "_"))(op, held))
