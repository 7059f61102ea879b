"""The built documentation in a browser: `SCANJIT_SITE=docs/_build python -m pytest tests/test_site.py`.

Needs headless Chromium. Each page is shown as wide as a phone, with a script that tells the page around what it sees.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

SITE = Path(os.environ.get("SCANJIT_SITE", ""))
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
PAGES = (
    "index", "start/ten_minutes", "start/from_keras", "howto/index", "howto/garch", "howto/faster", "howto/find_nan",
    "howto/differential_equation", "reference/loops",
    "explanation/speed", "explanation/numerics", "architecture", "migration", "glossary", "reference/index",
    "reference/benchmarks", "reference/generated/scanjit.scan", "auto_gallery/index", "auto_gallery/lorenz",
)  # fmt: skip
pytestmark = pytest.mark.skipif(not os.environ.get("SCANJIT_SITE") or not BROWSER, reason="no site, or no Chromium")

LOOK = """
<script>
function brightness(color) {
    const [r, g, b] = color.match(/[\\d.]+/g).slice(0, 3).map(x => x / 255)
        .map(x => x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
function background(element) {
    for (; element; element = element.parentElement) {
        const color = getComputedStyle(element).backgroundColor;
        if (!/, 0\\)$|transparent/.test(color)) return color;
    }
    return "rgb(255, 255, 255)";
}
function contrast(element) {
    const [a, b] = [getComputedStyle(element).color, background(element)].map(brightness);
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
}
function scrolls(element) {
    for (; element && element.tagName != "ARTICLE"; element = element.parentElement)
        if (/auto|scroll/.test(getComputedStyle(element).overflowX)) return true;
    return false;
}
addEventListener("load", () => setTimeout(() => {
    const outside = [...document.querySelectorAll("article *")]
        .filter(e => e.getBoundingClientRect().right > innerWidth + 1 && !scrolls(e)).map(e => e.outerHTML);
    const names = [...document.querySelectorAll("table.autosummary td:first-child code")];
    const split = names.filter(e => e.getClientRects().length > 1).map(e => e.textContent);
    const titles = [...document.querySelectorAll(".sphx-glr-thumbnail-title")];
    const captions = [...new Set(titles.map(e => getComputedStyle(e).textAlign))];
    const broken = [...document.images].filter(i => i.complete && i.naturalWidth == 0).map(i => i.src);
    document.documentElement.dataset.theme = "dark";
    const text = [...document.querySelectorAll("article p, article li, article td, article pre span")];
    const dim = text.filter(e => e.textContent.trim() && contrast(e) < 3).map(e => e.textContent.trim().slice(0, 30));
    const seen = {outside: outside.slice(0, 3), broken, split, captions, dim: dim.slice(0, 5)};
    parent.postMessage({name: window.name, ...seen}, "*");
}, 300));
</script>
"""
AROUND = """
<!doctype html>
<script>
const seen = [];
addEventListener("message", e => {
    seen.push(e.data);
    document.getElementById("seen").textContent = JSON.stringify(seen);
});
</script>
<pre id="seen"></pre>
"""


def test_pages_fit_a_phone_show_their_pictures_and_can_be_read_in_the_dark(tmp_path):
    site = tmp_path / "site"
    shutil.copytree(SITE, site)
    frames = ""
    for name in PAGES:
        page = site / f"{name}.html"
        page.write_text(page.read_text().replace("</head>", LOOK + "</head>", 1))
        frames += f'<iframe name="{name}" src="{name}.html" width="390" height="800"></iframe>\n'
    (site / "around.html").write_text(AROUND + frames)
    command = [str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    command += ["--virtual-time-budget=30000", "--dump-dom", (site / "around.html").as_uri()]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True).stdout
    found = re.search(r'<pre id="seen">(.*?)</pre>', shown, re.DOTALL)
    assert found, shown[-2000:]
    pages = json.loads(found[1].replace("&gt;", ">").replace("&lt;", "<").replace("&amp;", "&"))
    assert {page["name"] for page in pages} == set(PAGES)
    for page in pages:
        assert not page["outside"], f"{page['name']} is wider than a phone: {page['outside']}"
        assert not page["broken"], f"{page['name']} lacks {page['broken']}"
        assert not page["split"], f"{page['name']} breaks names: {page['split']}"
        assert page["captions"] in ([], ["center"]), f"{page['name']} has captions at {page['captions']}"
        assert not page["dim"], f"{page['name']} cannot be read in the dark: {page['dim']}"
