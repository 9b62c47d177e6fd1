"""Knows the settings: from the environment (ACKER_…) and from the options of ``acker serve``; the option wins."""

import ipaddress
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

import platformdirs
from pydantic import AfterValidator, Field, ValidationError, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from acker_service.delivery.egress import read_hosts, read_networks
from acker_service.delivery.retry import read_schedule
from acker_service.http.load_limits import LoadLimits
from acker_service.redis.durability import Mode, read_durability

DAY_MS = 86_400_000
DEFAULT_SCHEDULE = "1,5,30,120,600,1800,7200,18000,36000,36000"


class Role(StrEnum):
    """What a process does: answer, work (let time pass, deliver), or all of it."""

    ALL = "all"
    API = "api"
    WORKER = "worker"


def _checked(read: Callable[[str], object]) -> Callable[[str], str]:
    """Make a check of a text out of what reads it."""

    def check(text: str) -> str:
        read(text)
        return text

    return check


class Settings(BaseSettings):
    """How this process serves; durations in milliseconds."""

    model_config = SettingsConfigDict(env_prefix="ACKER_", env_ignore_empty=True, frozen=True)

    redis_url: str | None = None
    host: str = "127.0.0.1"
    port: int = Field(default=8700, ge=0, le=65_535)
    data_dir: Path = Field(default_factory=lambda: Path(platformdirs.user_state_dir("acker")))
    store_port: int = Field(default=0, ge=0, le=65_535)
    role: Role = Role.ALL
    open: bool = False
    keys_file: Path | None = None
    durability: Annotated[str, AfterValidator(_checked(read_durability))] = "relaxed"
    fsync_asserted: bool = False
    idempotency_window_ms: int = Field(default=600_000, ge=60_000, le=7 * DAY_MS)
    buckets: int = Field(default=4_096, ge=1, le=1_048_576)
    mailbox_max: int = Field(default=1_000_000, ge=1, le=2**31 - 1)
    spout_idle_ms: int = Field(default=DAY_MS, ge=1_000, le=365 * DAY_MS)
    tick_ms: int = Field(default=250, ge=10, le=60_000)
    max_body_bytes: int = Field(default=4_194_304, ge=1_024, le=268_435_456)
    max_batch: int = Field(default=10_000, ge=1, le=10_000)
    max_in_flight: int = Field(default=1_000, ge=1, le=1_000_000)
    max_in_flight_bytes: int = Field(default=67_108_864, ge=1_024, le=1_099_511_627_776)
    max_waiting: int = Field(default=10_000, ge=0, le=1_000_000)
    max_connections: int = Field(default=16_384, ge=1, le=1_000_000)
    max_header_bytes: int = Field(default=65_536, ge=1_024, le=16_777_216)
    body_timeout_s: float = Field(default=30, gt=0, le=3_600)
    keep_alive_s: int = Field(default=75, ge=0, le=3_600)
    backlog: int = Field(default=2_048, ge=1, le=65_535)
    callback_allow_cidrs: Annotated[str, AfterValidator(_checked(read_networks))] = ""
    callback_allow_hosts: Annotated[str, AfterValidator(_checked(read_hosts))] = ""
    callback_schedule_s: Annotated[str, AfterValidator(_checked(read_schedule))] = DEFAULT_SCHEDULE
    callback_retry_after_max_s: float = Field(default=3_600, ge=0, le=604_800)
    callback_timeout_s: float = Field(default=30, gt=0, le=600)
    callback_max_batch: int = Field(default=500, ge=1, le=1_000)
    callback_max_wait_ms: int = Field(default=20, ge=0, le=10_000)
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["text", "json"] = "text"

    @property
    def publishes(self) -> bool:
        """Whether others than this process can reach the store, to subscribe to what is published there."""
        return self.redis_url is not None or self.store_port != 0

    @property
    def load_limits(self) -> LoadLimits:
        """What this process takes on at once."""
        return LoadLimits(
            max_in_flight=self.max_in_flight,
            max_waiting=self.max_waiting,
            max_in_flight_bytes=max(self.max_in_flight_bytes, self.max_body_bytes),
            body_timeout_s=self.body_timeout_s,
            max_connections=self.max_connections,
            max_header_bytes=self.max_header_bytes,
        )

    @model_validator(mode="after")
    def _closed_without_keys(self) -> "Settings":
        if self.keys_file is None and not self.open and not _is_loopback(self.host):
            raise ValueError(
                f"anybody who reaches {self.host} could use the acker: listen on 127.0.0.1, "
                "name the keys with ACKER_KEYS_FILE, or say ACKER_OPEN=true"
            )
        return self

    @model_validator(mode="after")
    def _roles_share_a_store(self) -> "Settings":
        if self.role is not Role.ALL and self.redis_url is None:
            raise ValueError(
                f"a process of role {self.role.value} shares a store with others, and an embedded one is its own: "
                "name a Redis with ACKER_REDIS_URL"
            )
        return self

    @model_validator(mode="after")
    def _replicas_exist(self) -> "Settings":
        if read_durability(self.durability).mode is Mode.REPLICA and self.redis_url is None:
            raise ValueError("the embedded store has no replicas: name a Redis with ACKER_REDIS_URL")
        return self


def read_settings(**options: Any) -> Settings:
    """Read the settings; options that are None are left to the environment. Raises ``ValueError`` with all faults."""
    try:
        return Settings(**{name: value for name, value in options.items() if value is not None})
    except ValidationError as fault:
        raise ValueError("\n".join(_told(error) for error in fault.errors())) from None


def _told(error: Any) -> str:
    name = "_".join(str(part) for part in error["loc"])
    words = str(error["msg"]).removeprefix("Value error, ")
    return f"{name}: {words}" if name else words


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
