"""How a program says that its GPU's memory did not suffice."""

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
VERDICT = "the log ends with a CUDA out-of-memory error"


def exhausted(tail: bytes) -> bool:
    """Whether the end of a log says so."""
    return any(words in tail for words in _WORDS)
