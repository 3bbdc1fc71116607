"""Settings, from the environment (`REWINDOW_...`)."""

from functools import lru_cache

from pydantic import Field, HttpUrl, PostgresDsn, RedisDsn, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix="REWINDOW_", extra="ignore", env_ignore_empty=True)

    database_url: PostgresDsn
    """As the role that reads and writes rows (store/role.py)."""
    owner_database_url: PostgresDsn | None = None
    """The same database as the role that owns the tables. Only `python -m migrations` needs it; where it is missing,
    `database_url` is the owner's."""
    redis_url: RedisDsn
    store_url: str
    """file:///folder or s3://bucket. The S3 client reads its own variables (AWS_...)."""
    upload_bytes_max: int = Field(default=16 << 30, gt=0)
    uploads_folder: str | None = None
    """Where resumable uploads lie, encrypted, until they are complete: one folder for all processes of the API and the
    sweeper. By default, one in the folder for temporary files."""
    upload_lasts_s: float = Field(default=86400.0, gt=0)
    """A resumable upload to which nothing is added for so long is given up."""
    ingest_algorithms: str = "newreno,cubic,uncoupled,css,tccc"
    """The algorithms that are replayed on every uploaded capture."""
    lease_s: float = Field(default=30.0, gt=0)
    """A worker that does not renew its lease for so long loses its job."""
    retry_s: float = Field(default=10.0, gt=0)
    """Pause before the second attempt after an error; each further pause is four times as long."""
    attempts_max: int = Field(default=3, gt=0)
    job_memory_mb: int = Field(default=1536, gt=0)
    """What a job may use beside what its worker needs while idle. A capture that needs more fails, with the reason."""
    api_processes: int = Field(default=2, ge=1)
    request_s: float = Field(default=10.0, gt=0)
    """A request's header, and its body where that is no upload, must arrive within so many seconds each."""
    team_requests_per_s: float = Field(default=100.0, gt=0)
    """What each team may keep up, over all API processes; it may send the requests of two seconds at once."""
    team_jobs_max: int = Field(default=10_000, gt=0)
    """Jobs of a team that wait or run."""
    team_bytes_max: int = Field(default=1 << 40, gt=0)
    """Captures that a team stores and uploads, together."""
    sweep_interval_s: float = Field(default=5.0, gt=0)
    specs_folder: str = "specs"
    """The specifications that workers check."""
    check_seconds_max: float = Field(default=900.0, gt=0)
    """The longest time limit that a request may give a model check."""
    check_memory_mb: int = Field(default=1024, ge=64)
    """The heap of TLC in a model check."""
    check_disk_bytes_max: int = Field(default=4 << 30, gt=0)
    collect_interval_s: float = Field(default=3600.0, gt=0)
    """Time between two searches for objects that no row names."""
    stray_after_s: float = Field(default=3600.0, gt=0)
    """An object that no row names, and an upload without a new part, is deleted when it is so old."""
    retention_interval_s: float = Field(default=60.0, gt=0)
    """Time between two searches for what teams do not want to keep any longer."""
    team_alerts_max: int = Field(default=100, gt=0)
    """Alert rules of a team."""
    webhook_networks: str = ""
    """Networks (CIDR, comma-separated) that webhooks may reach though their addresses are not public."""
    webhook_ports: str = "443"
    """Ports that webhooks may go to, comma-separated."""
    webhook_http: bool = False
    """May webhooks go to addresses that begin with http:, too?"""
    dashboard_folder: str | None = None
    public_url: HttpUrl | None = None
    """The dashboard's address as browsers know it, without a path. Sign-in by OpenID Connect leads back to it,
    and messages of alerts link to it."""
    heartbeat_file: str | None = None
    """The sweeper touches it after each sweep, the alerter after each look for rules that are due."""
    log_json: bool = True

    @field_validator("public_url")
    @classmethod
    def _has_no_path(cls, address: HttpUrl | None) -> HttpUrl | None:
        if address is not None and (address.path not in (None, "/") or address.query or address.fragment):
            raise ValueError("must be an address without a path: https://HOST")
        return address

    @property
    def public_origin(self) -> str | None:
        """public_url without the slash at its end."""
        return None if self.public_url is None else str(self.public_url).rstrip("/")

    @property
    def sqlalchemy_url(self) -> str:
        return _for_sqlalchemy(self.database_url)

    @property
    def owners_sqlalchemy_url(self) -> str:
        return _for_sqlalchemy(self.owner_database_url or self.database_url)

    def algorithm_names(self) -> list[str]:
        return [n for n in self.ingest_algorithms.split(",") if n]


def _for_sqlalchemy(address: PostgresDsn) -> str:
    return "postgresql+psycopg://" + str(address).split("://", 1)[1]


@lru_cache
def settings() -> Settings:
    return Settings()  # type: ignore[call-arg]  # filled from the environment
