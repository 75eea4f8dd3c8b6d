"""Certificates for tests, made by openssl."""

import subprocess
from pathlib import Path


def make_certificate(folder: Path, *names: str, stem: str = "tls", days: int = 30) -> tuple[Path, Path]:
    """A self-signed certificate with these names (`DNS:gpu.lab`, `IP:127.0.0.1`) and its key."""
    certificate, key = folder / f"{stem}.crt", folder / f"{stem}.key"
    command = ["openssl", "req", "-x509", "-nodes", "-newkey", "ec"]
    command += ["-pkeyopt", "ec_paramgen_curve:prime256v1"]
    command += ["-keyout", str(key), "-out", str(certificate), "-days", str(days), "-subj", "/CN=grus"]
    if names:
        command += ["-addext", f"subjectAltName={','.join(names)}"]
    subprocess.run(command, check=True, capture_output=True)
    return certificate, key
