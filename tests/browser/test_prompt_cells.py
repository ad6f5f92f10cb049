"""A cell that begins with `%%vibe` is prose: fonts, spelling, chips, completion after `@`, and pictures."""

import pytest
from playwright.sync_api import expect

from tests.browser.lab import Lab

pytestmark = pytest.mark.browser

LOAD, PROMPT, CODE = 0, 1, 2
PASTE = """async () => {
    const canvas = document.createElement("canvas");
    canvas.width = canvas.height = 8;
    const picture = await new Promise(resolve => canvas.toBlob(resolve, "image/png"));
    const clipboardData = new DataTransfer();
    clipboardData.items.add(new File([picture], "image.png", { type: "image/png" }));
    document.activeElement.dispatchEvent(
        new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true }));
}"""


def test_a_prompt_is_written_and_read_as_prose(lab: Lab) -> None:
    prompt = "%%vibe --model x\nCompare @penguins for me with @[7] and @data/raw.csv\n```\nfor x in y: pass\n```"
    lab.open_again("%load_ext vibe_jupyter\npenguins = 344", prompt, "for x in y: pass")
    lab.run(LOAD)
    lab.wait_for_count_above(LOAD, None)
    cell, code = lab.cell(PROMPT), lab.cell(CODE).locator(".cm-line")
    first, line, *fenced = cell.locator(".cm-line").all()
    expect(cell.locator(".cm-content")).to_have_attribute("spellcheck", "true")
    family = "element => getComputedStyle(element).fontFamily"
    assert first.evaluate(family) == fenced[1].evaluate(family) == code.evaluate(family) != line.evaluate(family)
    expect(code.locator("span").first).to_have_text("for")
    expect(line.locator("span")).to_have_text(["@penguins", "@[7]", "@data/raw.csv"])
    for kind in ("variable", "cell", "file"):
        expect(line.locator(f".vibe-mention-{kind}")).to_have_count(1)

    lab.write(PROMPT, "%%vibe\n")
    cell.locator(".cm-content").click()
    lab.page.keyboard.press("ControlOrMeta+End")
    lab.page.keyboard.type("Plot @")
    offered = lab.page.locator(".jp-Completer-item")
    expect(offered.get_by_text("penguins", exact=True)).to_be_visible()
    expect(offered.get_by_text("[1]", exact=True)).to_be_visible()
    offered.get_by_text("penguins", exact=True).click()
    expect(line).to_have_text("Plot @penguins")
    lab.page.keyboard.type(" like")
    lab.page.evaluate(PASTE)
    expect(line).to_have_text("Plot @penguins like @pasted.png ")
    picture = lab.server.folder / "pasted.png"
    assert picture.read_bytes().startswith(b"\x89PNG")
    picture.unlink()

    lab.write(PROMPT, "for x in y: pass")
    expect(first.locator("span").first).to_have_text("for")
    expect(cell.locator(".cm-content")).not_to_have_attribute("spellcheck", "true")
