"""Detection of GPU out-of-memory (OOM) errors in a program's log. Light.

A virtual GPU's memory is that of its processes, and the kernel limits it where the GPU's memory would end. A
program there prints the error that it prints when its machine has no memory left.
"""

TAIL = 16 << 10
"""Bytes at the end of a log in which the error is searched."""
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
    """Return the OOM message that the end of a log supports, "" for none.

    `pretended` describes a virtual GPU's memory in words.
    """
    if any(words in tail for words in _WORDS):
        return "the log ends with a CUDA out-of-memory error"
    if pretended and any(words in tail for words in _PRETENDED):
        return f"its {pretended} did not suffice: the log ends with an out-of-memory error"
    return ""
