"""How a program says that its GPU's memory did not suffice. Light.

A virtual GPU's memory is that of its processes, which the kernel ends where the GPU's would end: a program
there says what it says when its machine gives no more.
"""

TAIL = 16 << 10
"""Bytes at the end of a log in which it says so."""
_WORDS = (
    b"CUDA out of memory",
    b"CUDA_ERROR_OUT_OF_MEMORY",
    b"cudaErrorMemoryAllocation",
    b"torch.OutOfMemoryError",
    b"torch.cuda.OutOfMemoryError",
    b"CUBLAS_STATUS_ALLOC_FAILED",
    b"RESOURCE_EXHAUSTED: Out of memory",
)
_PRETENDED = (
    b"DefaultCPUAllocator: can't allocate memory",
    b"Cannot allocate memory",
    b"MemoryError",
    b"std::bad_alloc",
    b"Unable to allocate",
)


def verdict(tail: bytes, *, pretended: str = "") -> str:
    """What the end of a log says of it, "" for nothing; `pretended` are words for a virtual GPU's memory."""
    if any(words in tail for words in _WORDS):
        return "the log ends with a CUDA out-of-memory error"
    if pretended and any(words in tail for words in _PRETENDED):
        return f"its {pretended} did not suffice: the log ends with an out-of-memory error"
    return ""
