"""The download: files of the published Zenodo record, each verified by the record's MD5 sum.

A throttling server is waited for as it asks, links lead over https or to this machine alone, and
every failure is one sentence.
"""

import ipaddress
import math
import re
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import pooch
import requests

SITE = "https://zenodo.org"
RECORD = "7968969"
TIMEOUT = 30.0  # seconds without an answer
TRIES = 4  # of one request that Zenodo throttles
MAX_WAIT = 90.0  # seconds that one request waits in all
_BY_HAND = (
    f"or else download the files by hand from {SITE}/records/{RECORD} into a folder and name it "
    "with data_dir or MONONET_DATA_DIR."
)


class DownloadError(Exception):
    """A file cannot be had from Zenodo; the message is one clear sentence."""


def fetch(
    names: Iterable[str], folder: Path, *, base_url: str = SITE, timeout: float = TIMEOUT
) -> list[Path]:
    """Download these files of the record into `folder` and return their paths.

    A file whose checksum in the folder is already right is not downloaded again. `timeout` is in
    seconds without an answer. Raises DownloadError; the folder then holds no partial or wrong file.
    """
    published = _published_files(base_url, timeout)
    fetched = []
    for name in names:
        if name not in published:
            raise DownloadError(
                f"Zenodo record {RECORD} at {base_url}: expected {name} among its files, "
                f"found {', '.join(map(repr, sorted(published)))}."
            )
        checksum, link = published[name]
        if not re.fullmatch("md5:[0-9a-f]{32}", str(checksum)):
            raise DownloadError(f"{link}: expected an MD5 sum in the record, found {checksum!r}.")
        # The name is ours, not the record's: nothing in a record can lead out of the folder.
        retrieve = partial(
            pooch.retrieve,
            known_hash=checksum,
            fname=name,
            path=folder,
            downloader=pooch.HTTPDownloader(True, chunk_size=65536, **_settings(timeout)),
        )
        fetched.append(Path(_patiently(retrieve, _allowed(link))))
    return fetched


def _published_files(base_url: str, timeout: float) -> dict[str, tuple[str, str]]:
    """Return {file name: (checksum, link)} from the record's JSON: one GET."""

    def get(url: str) -> dict[str, tuple[str, str]]:
        response = requests.get(url, **_settings(timeout))
        response.raise_for_status()
        try:
            files = response.json()["files"]
            return {file["key"]: (file["checksum"], file["links"]["self"]) for file in files}
        except (requests.JSONDecodeError, KeyError, TypeError) as error:
            raise DownloadError(f"{url}: expected a record's files as JSON, found none.") from error

    return _patiently(get, _allowed(f"{base_url.rstrip('/')}/api/records/{RECORD}"))


def _settings(timeout: float) -> dict:
    agent = f"mononet/0.1 (executable book on monotone networks; pooch {pooch.__version__})"
    return {
        "timeout": timeout,
        "headers": {"User-Agent": agent},  # Zenodo refuses clients that do not say who they are
        "hooks": {"response": _check_redirect},
        "proxies": {"http": ""},  # plain http is for this machine alone, which needs no proxy
    }


def _check_redirect(response: requests.Response, *_, **__) -> None:
    if response.is_redirect:
        _allowed(urljoin(response.url, response.headers["location"]))


def _allowed(url: str) -> str:
    """Return `url` in normal form when it is https, or http to a loopback host; else refuse it."""
    try:
        # as requests reads it, so that the host checked is the host called
        normal = requests.Request("GET", url).prepare().url
        scheme, host = urlsplit(normal).scheme, urlsplit(normal).hostname
        loopback = host == "localhost" or (
            scheme == "http" and ipaddress.ip_address(host).is_loopback
        )
    except ValueError:  # no URL, or a host name where an address was hoped for
        scheme, loopback = "", False
    if scheme == "https" or (scheme == "http" and loopback):
        return normal
    raise DownloadError(f"{url}: refused; expected a link over https, or to this machine itself.")


def _patiently(request: Callable, url: str):
    """Return `request(url)`, waiting and trying again as a throttling server asks.

    At most TRIES times and MAX_WAIT seconds in all; every failure becomes a DownloadError.
    """
    waited = 0.0
    for attempt in range(1, TRIES + 1):
        try:
            return request(url)
        except (requests.RequestException, ValueError, OSError) as error:
            wait = _seconds_to_wait(error, attempt)
            if attempt == TRIES or waited + wait > MAX_WAIT:
                raise DownloadError(f"{url}: {_why(error, attempt, wait)}; {_BY_HAND}") from error
        time.sleep(wait)
        waited += wait


def _seconds_to_wait(error: Exception, attempt: int) -> float:
    """Return what Retry-After (seconds or a date) asks for; infinity where waiting cannot help."""
    response = getattr(error, "response", None)
    if response is None or response.status_code not in (429, 503):
        return math.inf
    asked = response.headers.get("Retry-After", "")
    if re.fullmatch("[0-9]+", asked):
        return float(asked)
    try:
        return max(0.0, (parsedate_to_datetime(asked) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError):  # none, or nonsense
        return 2.0**attempt


def _why(error: Exception, attempt: int, wait: float) -> str:
    """Return in words why a download failed."""
    if isinstance(error, requests.HTTPError):
        status = error.response.status_code
        said = f"the server answered {status} {error.response.reason}"
        more = {
            403: ": it refuses this client, as Zenodo does when it is busy; try again later",
            404: ": there is no such record or file",
        }
        if math.isfinite(wait):
            more[status] = (
                f": it is throttling, and at try {attempt} of {TRIES} asks to wait {wait:.0f} s; "
                "try again later"
            )
        return said + more.get(status, "")
    if "does not match the known hash" in str(error):
        return "the file arrived with another MD5 sum than the record's and was not kept; try again"
    # requests reports a stall in the middle of a file as a connection error
    if isinstance(error, requests.Timeout) or "timed out" in str(error):
        return "the server stopped answering, and nothing was kept; try again"
    if isinstance(error, requests.exceptions.ChunkedEncodingError):
        return "the download broke off before the file was whole, and nothing was kept; try again"
    if isinstance(error, requests.RequestException):
        return "the server cannot be reached (is there a network?)"
    return f"the file could not be stored in the cache ({error})"
