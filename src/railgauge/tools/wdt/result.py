"""What one side of a transfer by WDT says of it."""

from __future__ import annotations

import dataclasses
from typing import Literal

Role = Literal["sender", "receiver", "unknown"]

#: WDT's error codes by number, which are its exit codes.
ERRORS = (
    *("OK", "ERROR", "ABORT", "CONN_ERROR", "CONN_ERROR_RETRYABLE", "SOCKET_READ_ERROR"),
    *("SOCKET_WRITE_ERROR", "BYTE_SOURCE_READ_ERROR", "FILE_WRITE_ERROR"),
    *("MEMORY_ALLOCATION_ERROR", "PROTOCOL_ERROR", "VERSION_MISMATCH", "ID_MISMATCH"),
    *("CHECKSUM_MISMATCH", "RESOURCE_NOT_FOUND", "ABORTED_BY_APPLICATION"),
    *("VERSION_INCOMPATIBLE", "NOT_FOUND", "QUOTA_EXCEEDED", "FEWER_PORTS", "URI_PARSE_ERROR"),
    *("INCONSISTENT_DIRECTORY", "INVALID_LOG", "INVALID_CHECKPOINT", "NO_PROGRESS"),
    *("TRANSFER_LOG_ACQUIRE_ERROR", "WDT_TIMEOUT", "UNEXPECTED_CMD_ERROR", "ENCRYPTION_ERROR"),
    *("ALREADY_EXISTS", "GLOBAL_CHECKPOINT_ABORT", "INVALID_REQUEST", "SENDER_START_TIMED_OUT"),
    "AUTH_ERROR",
)


@dataclasses.dataclass(frozen=True)
class Summary:
    """What one side says at its end. Mbytes are 2^20 bytes."""

    status: str
    #: None on a receiver, which counts blocks
    files: int | None
    blocks: int | None
    data_bytes_low: int
    data_bytes_high: int
    #: with headers and what had to be sent again
    total_bytes: int
    wasted_bytes: int
    #: None in versions that do not say
    encryption: str | None
    previously_sent_bytes: int


@dataclasses.dataclass(frozen=True)
class Output:
    """One side of one transfer that has come to its end."""

    role: Role
    #: as in ERRORS
    status: str
    code: int
    version: str | None
    transfer_id: str | None
    ports: tuple[int, ...]
    summary: Summary | None
    #: blocks of all threads, as far as they have ended
    blocks: int
    #: the sender's time from start to end, and that of its search for files
    seconds: float | None = None
    folder_seconds: float | None = None
    #: the sender's rate as printed, headers included, start-up included or not
    throughput_mbytes_s: float | None = None
    pure_mbytes_s: float | None = None
    files_explored: int | None = None
    #: connections that were tried again
    retries: int = 0
    #: error codes that the transfer recovered from
    recovered: tuple[str, ...] = ()
    #: files and folders that were not sent
    failed: tuple[str, ...] = ()
    #: lines that WDT itself marks as errors
    error_lines: int = 0
    #: the folders for its files, which a receiver that throws them away does not make (since 2016)
    wrote: bool = False
    simulated: bool = False

    def covers(self, size: int) -> bool:
        """Whether so many bytes of data agree with the summary, as rounded."""
        summary = self.summary
        return summary is not None and summary.data_bytes_low <= size <= summary.data_bytes_high
