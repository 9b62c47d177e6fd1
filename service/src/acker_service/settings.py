"""Settings, read from the environment (ACKER_…) and the options of ``acker serve``; an option takes precedence.

A variable ACKER_… that is not known is an error: a setting with a misspelt name would have no effect.
"""

import ipaddress
import os
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

import platformdirs
from acker_protocol.redis_url import read_redis_url, without_login
from acker_protocol.wire.fields import nearest
from pydantic import AfterValidator, Field, PrivateAttr, ValidationError, model_validator
from pydantic_settings import BaseSettings, EnvSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from acker_service.delivery.egress import read_networks
from acker_service.delivery.retry import read_schedule
from acker_service.host_names import read_hosts, read_origins
from acker_service.message_url import read_message_url
from acker_service.redis.durability import Mode, read_durability
from acker_service.service_links import service_links
from acker_service.setting_errors import PREFIX, SECRET, describe, named

DAY_MS = 86_400_000
CLIENT_VARIABLES = frozenset({"ACKER_URL", "ACKER_API_KEY", "ACKER_TOPOLOGY", "ACKER_ANCHORS", "ACKER_CHILDREN"})
"""Variables of the client, which a process may have beside the settings."""


class Source(StrEnum):
    """Where the value of a setting comes from."""

    OPTION = "option"
    ENVIRONMENT = "environment"
    DEFAULT = "default"


class Role(StrEnum):
    """What a process does: serve the API, work (tick and deliver), or both."""

    ALL = "all"
    API = "api"
    WORKER = "worker"


def _checked(parse: Callable[[str], object]) -> Callable[[str | None], str | None]:
    """Make a validator that keeps the text, out of a parser of it; None is the text of a setting left out."""

    def check(text: str | None) -> str | None:
        if text is not None:
            parse(text)
        return text

    return check


class Settings(BaseSettings):
    """Settings of this process; durations in milliseconds.

    The command `acker serve` has one option for each field, with its description as help; a description that does not
    end with a note in brackets gets the default there.
    """

    model_config = SettingsConfigDict(env_prefix=PREFIX, env_ignore_empty=True, frozen=True)

    redis_url: Annotated[str | None, AfterValidator(_checked(read_redis_url))] = Field(
        default=None,
        description="Redis or Valkey: redis://, redis+sentinel:// or redis+cluster://… [none: an embedded one]",
    )
    host: str = Field(default="127.0.0.1", description="Address to listen on")
    port: int = Field(default=8700, ge=0, le=65_535, description="Port to listen on")
    data_dir: Path = Field(
        default_factory=lambda: Path(platformdirs.user_state_dir("acker")),
        description="Folder of the embedded store [the user's state folder]",
    )
    store_port: int = Field(
        default=0, ge=0, le=65_535, description="Port of the embedded store [none: a private socket]"
    )
    open: bool = Field(
        default=False,
        description="Serve other machines without keys",
        json_schema_extra={"option": "--open/--closed"},
    )
    keys_file: Path | None = Field(default=None, description="File of API keys [none: no key is required]")
    tls_cert: Path | None = Field(default=None, description="Certificate of the address, PEM [none: without TLS]")
    tls_key: Path | None = Field(default=None, description="Key of that certificate, PEM [none: without TLS]")
    allowed_hosts: Annotated[str, AfterValidator(_checked(read_hosts))] = Field(
        default="", description="Names in Host that are answered without keys, besides this machine's [none]"
    )
    allowed_origins: Annotated[str, AfterValidator(_checked(read_origins))] = Field(
        default="", description="Origins of web pages that may act without keys, besides the acker's own [none]"
    )
    message_url: Annotated[str | None, AfterValidator(_checked(read_message_url))] = Field(
        default=None,
        description="Link from a message id to your own system, for the page: https://…/{message_id} [none]",
    )
    durability: Annotated[str, AfterValidator(_checked(read_durability))] = Field(
        default="relaxed", description="When a write counts: relaxed, fsync or replica:n"
    )
    fsync_asserted: bool = Field(default=False, description="Assert that appendfsync is always where Redis hides it")
    idempotency_window_ms: int = Field(
        default=600_000, ge=60_000, le=7 * DAY_MS, description="How long request keys are remembered"
    )
    buckets: int = Field(default=16_384, ge=1, le=1_048_576, description="Small hashes a shard of a new topology has")
    mailbox_max: int = Field(
        default=1_000_000, ge=1, le=2**31 - 1, description="Unread completions of a spout task, at most"
    )
    max_spouts: int = Field(default=10_000, ge=1, le=1_000_000, description="Most spout tasks of a topology")
    max_early: int = Field(
        default=1_000_000, ge=1, le=2**31 - 1, description="Roots of a topology without their init yet, at most"
    )
    early_max_bytes: int = Field(
        default=67_108_864,
        ge=65_536,
        le=2**40,
        description="Bytes that the roots of a topology without their init take, at most",
    )
    remembered_max_bytes: int = Field(
        default=1_073_741_824,
        ge=1_048_576,
        le=2**40,
        description="Bytes that the remembered edges and requests of a topology take, at most",
    )
    trace_max_bytes: int = Field(
        default=67_108_864, ge=0, le=2**40, description="Bytes that the traces of a topology's roots take, at most"
    )
    trace_ttl_ms: int = Field(
        default=3_600_000,
        ge=1_000,
        le=7 * DAY_MS,
        description="How long a trace stays after its root's deadline or end",
    )
    spout_idle_ms: int = Field(
        default=DAY_MS, ge=1_000, le=365 * DAY_MS, description="How long an ephemeral spout task stays unused"
    )
    tick_ms: int = Field(
        default=250, ge=10, le=60_000, description="Time between two ticks, which time out overdue roots"
    )
    max_body_bytes: int = Field(default=4_194_304, ge=1_024, le=268_435_456, description="Largest body that is taken")
    max_batch: int = Field(default=10_000, ge=1, le=10_000, description="Most operations in a batch")
    max_in_flight: int = Field(default=1_000, ge=1, le=1_000_000, description="Most requests in flight at once")
    max_in_flight_bytes: int = Field(
        default=67_108_864, ge=1_024, le=1_099_511_627_776, description="Most bytes their bodies hold together"
    )
    max_waiting: int = Field(
        default=10_000, ge=0, le=1_000_000, description="Most long polls and event streams at once"
    )
    max_connections: int = Field(default=16_384, ge=1, le=1_000_000, description="Most connections at once")
    max_header_bytes: int = Field(default=65_536, ge=1_024, le=16_777_216, description="Largest head of a request")
    body_timeout_s: float = Field(
        default=30, gt=0, le=3_600, description="How long a request may take to arrive, and an answer may stay unread"
    )
    keep_alive_s: int = Field(default=75, ge=0, le=3_600, description="How long an idle connection is kept")
    shutdown_drain_s: float = Field(
        default=5, ge=0, le=3_600, description="How long requests are taken after SIGTERM, with Connection: close"
    )
    backlog: int = Field(default=2_048, ge=1, le=65_535, description="Connections that may wait to be accepted")
    role: Role = Field(default=Role.ALL, description="What this process does: all, api or worker")
    processes: int = Field(
        default=1, ge=1, le=128, description="Processes that serve the API; beyond 1 the worker has one of its own"
    )
    callback_allow_cidrs: Annotated[str, AfterValidator(_checked(read_networks))] = Field(
        default="", description="Networks that are not public, to which webhooks may go [none]"
    )
    callback_allow_hosts: Annotated[str, AfterValidator(_checked(read_hosts))] = Field(
        default="", description="Hosts to which webhooks may go whatever their address [none]"
    )
    callback_schedule_s: Annotated[str, AfterValidator(_checked(read_schedule))] = Field(
        default="1,5,30,120,600,1800,7200,18000,36000,36000", description="Seconds before each further try"
    )
    callback_retry_after_max_s: float = Field(
        default=3_600, ge=0, le=604_800, description="Longest Retry-After of a receiver that counts"
    )
    callback_timeout_s: float = Field(default=30, gt=0, le=600, description="How long a post to a webhook may take")
    callback_max_batch: int = Field(default=500, ge=1, le=1_000, description="Most completions delivered together")
    callback_max_wait_ms: int = Field(default=20, ge=0, le=10_000, description="How long completions wait for others")
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="debug, info, warning or error"
    )
    log_format: Literal["text", "json"] = Field(default="text", description="text or json")

    _options: frozenset[str] = PrivateAttr(default=frozenset())
    """The names of the settings that were given as options."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._options = frozenset(options)

    def public(self) -> dict[str, dict[str, Any]]:
        """Return the settings in force as a document, by their variables: their values, without logins, and sources."""
        values = self.model_dump(mode="json")
        return {
            f"{PREFIX}{name.upper()}": {"value": _without_secret(name, value), "source": self._source_of(name).value}
            for name, value in values.items()
        }

    def _source_of(self, name: str) -> Source:
        if name in self._options:
            return Source.OPTION
        return Source.ENVIRONMENT if name in self.model_fields_set else Source.DEFAULT

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Read options and the environment, without Kubernetes' service links: ACKER_PORT may be one."""
        assert isinstance(env_settings, EnvSettingsSource)
        links = {name.lower() for name in service_links(os.environ)}
        env_settings.env_vars = {name: env_settings.env_vars[name] for name in env_settings.env_vars.keys() - links}
        return init_settings, env_settings

    @property
    def publishes(self) -> bool:
        """Whether other processes can reach the store, and so subscribe to what is published there."""
        return self.redis_url is not None or self.store_port != 0

    @property
    def is_loopback(self) -> bool:
        """Whether only programs of this machine reach the listener."""
        return _is_loopback(self.host)

    @model_validator(mode="after")
    def _closed_without_keys(self) -> "Settings":
        if self.keys_file is None and not self.open and not self.is_loopback:
            raise ValueError(
                f"others reach {self.host or 'all addresses'} and could use the acker: listen on 127.0.0.1 with "
                f"{setting('host')}, name a file of keys with {setting('keys_file')}, or allow it with "
                f"--open ({PREFIX}OPEN=true)"
            )
        return self

    @model_validator(mode="after")
    def _certificate_has_its_key(self) -> "Settings":
        if (self.tls_cert is None) != (self.tls_key is None):
            given, missing = ("tls_cert", "tls_key") if self.tls_key is None else ("tls_key", "tls_cert")
            raise ValueError(
                f"{setting(given)} is given without {setting(missing)}: TLS needs a certificate and its key; "
                "name both, or neither"
            )
        return self

    @model_validator(mode="after")
    def _roles_share_a_store(self) -> "Settings":
        if self.role is not Role.ALL and self.redis_url is None:
            raise ValueError(
                f"a process of role {self.role.value} shares a store with others, and an embedded one is its own: "
                f"name a Redis with {setting('redis_url')}, or leave out {setting('role')}"
            )
        return self

    @model_validator(mode="after")
    def _processes_have_work(self) -> "Settings":
        if self.processes > 1 and self.role is Role.WORKER:
            raise ValueError(
                f"{setting('processes')} is {self.processes}, and a worker is one process: leave it out, or choose "
                f"another role with {setting('role')}"
            )
        for name in ("max_in_flight", "max_connections", "max_waiting"):
            if 0 < getattr(self, name) < self.processes:
                raise ValueError(
                    f"{setting('processes')} is {self.processes}, and each process needs a part of {setting(name)}, "
                    f"which is {getattr(self, name)}: raise it, or choose fewer processes"
                )
        return self

    @model_validator(mode="after")
    def _replicas_exist(self) -> "Settings":
        if read_durability(self.durability).mode is Mode.REPLICA and self.redis_url is None:
            raise ValueError(
                f"{setting('durability')} is {self.durability}, and the embedded store has no replicas: "
                f"name a Redis with {setting('redis_url')}"
            )
        return self


def _without_secret(name: str, value: Any) -> Any:
    """Return a value as everybody may see it: of an address that may hold a login, the address alone."""
    return without_login(value) if name in SECRET and value is not None else value


def setting(name: str) -> str:
    """Name a setting by its option and its variable, for errors and logs."""
    return named(name, Settings.model_fields)


def read_settings(**options: Any) -> Settings:
    """Read the settings; options that are None come from the environment. Raises ``ValueError`` with all errors."""
    errors = list(_unknown_variables(os.environ))
    try:
        settings = Settings(**{name: value for name, value in options.items() if value is not None})
    except ValidationError as error:
        errors += [describe(detail, Settings.model_fields) for detail in error.errors()]
    if errors:
        raise ValueError("\n".join(errors))
    return settings


def _unknown_variables(environment: Mapping[str, str]) -> Iterator[str]:
    """Describe the variables ACKER_… that are not known, without their values."""
    known = CLIENT_VARIABLES | {f"{PREFIX}{name.upper()}" for name in Settings.model_fields}
    links = service_links(environment)
    for name in sorted(environment):
        if name.upper().startswith(PREFIX) and name.upper() not in known and name not in links:
            meant = nearest(name[len(PREFIX) :], (each.removeprefix(PREFIX) for each in known))
            hint = "remove it" if meant is None else f"did you mean {PREFIX}{meant}?"
            yield f"{name}: no setting has this name; {hint}"


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
