"""The numbers of a model, the same as the parent makes: a hash of seed and place (Chris Wellons, lowbias32).

The arithmetic is on whole numbers of 64 bits, of which the lower 32 count, so that NumPy and torch do the same.
"""

from typing import Any, Dict

FIRST, SECOND, LOW = 0x7FEB352D, 0x846CA68B, 0xFFFFFFFF
CHUNK = 1 << 22


def hashed(bits: Any) -> Any:
    """Return the hash of each number."""
    bits = bits ^ (bits >> 16)
    bits = (bits * FIRST) & LOW
    bits = bits ^ (bits >> 15)
    bits = (bits * SECOND) & LOW
    return bits ^ (bits >> 16)


def with_numpy(tensor: Dict[str, Any], seed: int, np: Any) -> Any:
    """Return the numbers of a tensor as float32 in NumPy."""
    count = 1
    for size in tensor["shape"]:
        count *= size
    out = np.empty(count, np.float32)
    for begin in range(0, count, CHUNK):
        end = min(count, begin + CHUNK)
        places = (np.arange(begin, end, dtype=np.int64) + tensor["first"]) & LOW
        unit = (hashed(places ^ seed) >> 8).astype(np.float32)
        unit *= np.float32(2 * tensor["spread"] / 2**24)
        unit += np.float32(tensor["centre"] - tensor["spread"] + tensor["spread"] / 2**24)
        out[begin:end] = unit
    return out.reshape(tensor["shape"])


def with_torch(tensor: Dict[str, Any], seed: int, torch: Any) -> Any:
    """Return the numbers of a tensor as float32 in torch, which may be there without NumPy."""
    count = 1
    for size in tensor["shape"]:
        count *= size
    out = torch.empty(count, dtype=torch.float32)
    single = torch.float32
    factor = torch.tensor(2 * tensor["spread"] / 2**24, dtype=single)
    offset = torch.tensor(tensor["centre"] - tensor["spread"] + tensor["spread"] / 2**24, dtype=single)
    for begin in range(0, count, CHUNK):
        end = min(count, begin + CHUNK)
        places = (torch.arange(begin, end, dtype=torch.int64) + tensor["first"]) & LOW
        out[begin:end] = (hashed(places ^ seed) >> 8).to(single) * factor + offset
    return out.reshape(tuple(tensor["shape"]))
