"""The signature of a webhook's request, so that its receiver knows who sent it, and when.

    Anabranch-Signature: t=1767225600,v1=5257a869e7...

`t` is the time of sending in seconds since 1970; `v1` is the HMAC-SHA256, with the receiver's secret as key,
of `t`, a full stop and the body. docs/service.md shows how a receiver checks it.
"""

from __future__ import annotations

import hashlib
import hmac

HEADER = "Anabranch-Signature"


def signature(secret: str, time_s: int, body: bytes) -> str:
    """Returns the value of the header for a body that is sent at a time."""
    signed = hmac.new(secret.encode(), f"{time_s}.".encode() + body, hashlib.sha256)
    return f"t={time_s},v1={signed.hexdigest()}"
