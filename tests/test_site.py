"""The built site in a browser: complete, readable, and asking no other host for anything."""

from __future__ import annotations

import functools
import http.server
import os
import re
import shutil
import threading
from pathlib import Path
from urllib.parse import urldefrag, urljoin, urlsplit

import pytest

from mononet import site

ROOT = Path(__file__).resolve().parents[1]
SITE = Path(os.environ.get("MONONET_SITE", ROOT / "build/book/_build/html"))
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
QUIET = (
    "--no-sandbox",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-domain-reliability",
    "--disable-sync",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-features=OptimizationHints,MediaRouter",
)
DESKTOP = {"width": 1280, "height": 900}
PHONE = {"width": 390, "height": 844}

pytestmark = pytest.mark.xdist_group("site")


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format, *args):
        pass


@pytest.fixture(scope="module")
def address():
    """The site's address on the loopback interface while the module's tests run."""
    if not (SITE / "index.html").is_file():
        pytest.skip("build the book first: make book")
    handler = functools.partial(QuietHandler, directory=str(SITE))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture(scope="module")
def browser(address):
    executable = next(filter(None, map(shutil.which, BROWSERS)), None)
    if executable is None:
        pytest.skip(f"no browser on this machine (looked for {', '.join(BROWSERS)})")
    api = pytest.importorskip("playwright.sync_api")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=list(QUIET))
        yield browser
        browser.close()


@pytest.fixture
def page(browser):
    page = browser.new_page(viewport=DESKTOP)
    page.set_default_timeout(20_000)
    yield page
    page.close()


@pytest.fixture(scope="module")
def pages():
    """The site's own pages, by address: those of the table of contents."""
    text = (ROOT / "_toc.yml").read_text()
    return [f"{name}.html" for name in re.findall(r"(?:root|file): *(\S+)", text)]


def contrast(front: str, back: str) -> float:
    """WCAG contrast ratio of two CSS colors `rgb(r, g, b)`."""

    def luminance(color):
        channels = [float(c) / 255 for c in re.findall(r"[\d.]+", color)[:3]]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(front), luminance(back)))
    return (high + 0.05) / (low + 0.05)


def test_front_page_shows_the_headline_table(page, address):
    page.goto(address)
    assert "mononet" in page.title()
    assert page.locator("h1").first.inner_text().strip().startswith("mononet")
    section = page.locator("section#what-was-measured")
    assert section.locator("table, .mn-box").count() > 0
    assert len(section.inner_text()) > 200


def test_search_finds_a_page(page, address):
    page.goto(address)
    page.locator("button.search-button-field:visible").click()
    box = page.locator("#pst-search-dialog input[name=q]")
    box.fill("monotone")
    box.press("Enter")
    result = page.locator("#search-results li a").first
    result.wait_for()
    result.click()
    page.wait_for_url(re.compile(r"\.html"))
    assert "monotone" in page.locator("article").inner_text().lower()


def test_formulas_are_set(page, address):
    page.goto(address + "models.html")
    page.locator("mjx-container").first.wait_for()
    assert page.locator("mjx-container[display=true]").count() >= 3
    assert page.locator("mjx-merror").count() == 0


def test_results_page_shows_a_figure_with_words(page, address):
    page.goto(address + "notebooks/auto_mpg.html", wait_until="load")
    figures = page.locator("article figure img, article .cell_output img")
    assert figures.count() > 0
    for figure in figures.all():
        figure.scroll_into_view_if_needed()
        assert figure.evaluate("image => image.decode().then(() => image.naturalWidth)") > 0
        assert len(figure.get_attribute("alt") or "") >= 10
    assert page.locator("article figure figcaption").count() > 0


def test_the_numbers_of_a_table_can_be_saved(page, address):
    page.goto(address + "notebooks/auto_mpg.html")
    link = page.locator("article a[download]").first
    with page.expect_download() as waiting:
        link.click()
    saved = Path(waiting.value.path()).read_text().splitlines()
    assert waiting.value.suggested_filename == link.get_attribute("download")
    assert len(saved) > 1 and saved[0].count(",") == saved[1].count(",") > 1


def test_every_page_is_clean_and_fits_a_phone(page, address, pages):
    troubles = []
    page.on("console", lambda m: m.type == "error" and troubles.append(f"{page.url}: {m.text}"))
    page.on("pageerror", lambda error: troubles.append(f"{page.url}: {error}"))

    def failed(request):
        # The browser gives up what a page still loads when the next one is opened.
        if request.failure != "net::ERR_ABORTED":
            troubles.append(f"{page.url}: {request.url} {request.failure}")

    page.on("requestfailed", failed)
    page.on(
        "response", lambda r: r.status >= 400 and troubles.append(f"{page.url}: {r.status} {r.url}")
    )
    hosts = set()
    page.on("request", lambda request: hosts.add(urlsplit(request.url).hostname))
    page.set_viewport_size(PHONE)
    for name in pages:
        page.goto(address + name, wait_until="networkidle")
        root = "document.documentElement"
        wide, room = page.evaluate(f"[{root}.scrollWidth, {root}.clientWidth]")
        if wide > room:
            troubles.append(f"{name}: {wide} pixels wide on a phone of {room}")
    assert troubles == []
    assert hosts <= {"127.0.0.1", None}  # None: data: addresses


def test_links_inside_the_site_resolve(address, pages):
    broken, results = [], 0
    for name in pages:
        text = (SITE / name).read_text()
        for href in re.findall(r'<a\b[^>]*?\bhref="([^"]+)"', text):
            target = urljoin(address + name, urldefrag(href).url)
            if not target.startswith(address):
                continue
            path = SITE / (urlsplit(target).path.lstrip("/") or "index.html")
            results += "/results/" in target
            if not path.exists():
                broken.append(f"{name}: {href}")
    assert broken == []
    assert results > 0


def test_dark_mode_is_readable(page, address):
    page.goto(address + "protocol.html")
    cell = page.locator("article td").first
    seen = []
    for theme in ("light", "dark"):
        for _ in range(3):  # the switch goes round light, dark and the system's choice
            if page.locator("html").get_attribute("data-mode") == theme:
                break
            page.locator("button.theme-switch-button:visible").first.click()
        page.wait_for_function(
            "theme => document.documentElement.dataset.theme === theme", arg=theme
        )
        page.mouse.move(0, 0)
        page.wait_for_timeout(400)  # colors change gradually
        front = cell.evaluate("cell => getComputedStyle(cell).color")
        back = cell.evaluate(
            """cell => {
                for (let e = cell; e; e = e.parentElement) {
                    const color = getComputedStyle(e).backgroundColor;
                    if (!/, 0\\)$|transparent/.test(color)) return color;
                }
                return "rgb(255, 255, 255)";
            }"""
        )
        assert contrast(front, back) >= 4.5, f"{theme}: {front} on {back}"
        seen.append(back)
    assert seen[0] != seen[1]


@pytest.fixture
def root(tmp_path):
    """A repository with one page and one result."""
    root = tmp_path / "root"
    files = {
        "_config.yml": "title: t\n",
        "_toc.yml": "format: jb-book\nroot: index\n",
        "book/index.md": "# t\n",
        "book/references.bib": "",
        "book/_static/custom.css": "",
        "book/results/auto_mpg/split-00000000/runs.csv": "value\n",
        "book/results/auto_mpg/split-00000000/.lock": "",
        "book/results/auto_mpg/study.lock": "",
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_assemble_leaves_nothing_stale_and_nothing_unchanged_touched(root, tmp_path):
    source, notebook = tmp_path / "build/book", tmp_path / "a.ipynb"
    notebook.write_text("{}")
    site.assemble(root, source, [notebook], {"headline.html": "<p>one</p>"})
    result = source / "extra/results/auto_mpg/split-00000000/runs.csv"
    assert result.is_file()
    assert (source / "notebooks/a.ipynb").is_file()
    assert not list(source.rglob("*lock"))

    before = result.stat().st_mtime_ns
    (root / "book/index.md").rename(root / "book/other.md")
    site.assemble(root, source, [], {"headline.html": "<p>two</p>"})
    found = {str(path.relative_to(source)) for path in source.rglob("*") if path.is_file()}
    assert {"other.md", "generated/headline.html"} <= found
    assert not {"index.md", "notebooks/a.ipynb"} & found
    assert (source / "generated/headline.html").read_text() == "<p>two</p>"
    assert result.stat().st_mtime_ns == before


def test_assemble_names_a_missing_notebook(root, tmp_path):
    with pytest.raises(site.SiteError, match=r"gone\.ipynb"):
        site.assemble(root, tmp_path / "build", [tmp_path / "gone.ipynb"])
    assert not (tmp_path / "build").exists()


def test_a_warning_fails_the_build(root, tmp_path):
    source = tmp_path / "build"
    (root / "book/index.md").write_text("# t\n\n{doc}`nowhere`\n")
    site.assemble(root, source, [])
    with pytest.raises(site.SiteError, match="nowhere"):
        site.build(source)
