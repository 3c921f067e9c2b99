"""The download, against a stand-in on loopback: whole files or one clear sentence."""

import pytest
from servers import stand_in

from mononet.zenodo import DownloadError, fetch

NAMES = ["train_heart.csv", "test_heart.csv"]
TRAIN = "/api/records/7968969/files/train_heart.csv/content"
RECORD = "/api/records/7968969"


@pytest.fixture
def zenodo():
    with stand_in({name: f"{name}\n".encode() * 1000 for name in NAMES}) as server:
        yield server


def test_a_file_is_downloaded_once(zenodo, tmp_path):
    for requests in (3, 4):  # the second time the record alone
        assert fetch(NAMES, tmp_path, base_url=zenodo.url) == [tmp_path / name for name in NAMES]
        assert len(zenodo.requests) == requests
    for name in NAMES:
        assert (tmp_path / name).read_bytes() == zenodo.files[name]
    assert {agent.split("/")[0] for _, agent in zenodo.requests} == {"mononet"}


@pytest.mark.parametrize("path", [RECORD, TRAIN])
@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (404, "404 Not Found: there is no such record or file"),
        (403, "403 Forbidden: it refuses this client, as Zenodo does when it is busy"),
        (500, "the server answered 500"),
        ((429, {"Retry-After": "0"}), "it is throttling, and at try 4 of 4 asks to wait 0 s"),
        ((503, {"Retry-After": "86400"}), "at try 1 of 4 asks to wait 86400 s"),
        ("stalled", "the server stopped answering, and nothing was kept"),
        ("truncated", "the download broke off before the file was whole"),
        ((302, {"Location": "http://192.0.2.1/x"}), "http://192.0.2.1/x: refused"),
        (b"something else", None),
    ],
)
def test_failures_are_clear_and_leave_nothing(zenodo, tmp_path, path, answer, words):
    zenodo.answers[path] = [answer]
    if words is None:
        words = "another MD5 sum" if path == TRAIN else "expected a record's files as JSON"
    with pytest.raises(DownloadError) as caught:
        fetch(NAMES, tmp_path, base_url=zenodo.url, timeout=0.3)
    assert words in str(caught.value) and "\n" not in str(caught.value)
    assert zenodo.url in str(caught.value) or "refused" in words
    assert not list(tmp_path.iterdir())


def test_a_throttling_server_is_waited_for(zenodo, tmp_path):
    zenodo.answers[RECORD] = [(429, {"Retry-After": "1"}), (503, {"Retry-After": "0"}), 200]
    zenodo.answers[TRAIN] = [(429, {"Retry-After": "Mon, 01 Jan 2024 00:00:00 GMT"}), 200]
    assert len(fetch(NAMES, tmp_path, base_url=zenodo.url)) == 2


def test_no_server_at_all(tmp_path):
    with stand_in({}) as server:
        pass
    with pytest.raises(DownloadError, match="cannot be reached"):
        fetch(NAMES, tmp_path, base_url=server.url)


def test_a_broken_file_is_replaced(zenodo, tmp_path):
    (tmp_path / "train_heart.csv").write_text("half")
    fetch(NAMES, tmp_path, base_url=zenodo.url)
    assert (tmp_path / "train_heart.csv").read_bytes() == zenodo.files["train_heart.csv"]


@pytest.mark.parametrize(
    "link",
    [
        "http://example.org/train_heart.csv",
        "ftp://127.0.0.1/train_heart.csv",
        "file:///etc/hosts",
        "http://127.0.0.1@example.org/",
        "http://example.org\\@127.0.0.1/",
        "http://127.0.0.1.example.org/",
        "http://localhost.example.org/",
        "//example.org/x",
    ],
)
def test_links_elsewhere_are_refused(zenodo, tmp_path, link):
    zenodo.entry("train_heart.csv")["links"]["self"] = link
    with pytest.raises(DownloadError, match="refused; expected a link over https"):
        fetch(NAMES, tmp_path, base_url=zenodo.url)
    with pytest.raises(DownloadError, match="refused"):
        fetch(NAMES, tmp_path, base_url=link)
    assert not list(tmp_path.iterdir())


def test_names_in_the_record_cannot_leave_the_cache(zenodo, tmp_path):
    cache = tmp_path / "cache"
    for entry in zenodo.record["files"]:
        entry["key"] = f"../{entry['key']}"
    with pytest.raises(DownloadError, match=r"expected train_heart\.csv among its files"):
        fetch(NAMES, cache, base_url=zenodo.url)
    assert not list(tmp_path.iterdir())


def test_a_record_without_checksum_is_not_trusted(zenodo, tmp_path):
    zenodo.entry("train_heart.csv")["checksum"] = ""
    with pytest.raises(DownloadError, match="expected an MD5 sum"):
        fetch(NAMES, tmp_path, base_url=zenodo.url)


def test_a_cache_that_cannot_be_written_is_told(zenodo, tmp_path):
    (tmp_path / "cache").write_text("a file where a folder should be")
    with pytest.raises(DownloadError, match="could not be stored in the cache"):
        fetch(NAMES, tmp_path / "cache", base_url=zenodo.url)
