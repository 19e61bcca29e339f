"""The console in a real Chromium: what the person on call sees and presses. Pictures go to $HEALER_SCREENSHOTS, if set."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, ViewportSize, async_playwright, expect

from healer.model import events as ev
from healer.model.decisions import Answer, Reason
from healer.ports import AlertReport
from healer.testing.states import a_cluster, a_node, a_pod
from healer.testing.stories import Story
from healer.web.keys import Site
from healer.web.server import application, listening

pytestmark = pytest.mark.asyncio(loop_scope="module")
TOKEN = "console-token-of-a-test"
NASTY = '<script>document.title="owned"</script><img src=x onerror="document.title=1"> & "quotes" {{ x }}'
DESKTOP, PHONE = ViewportSize(width=1440, height=1000), ViewportSize(width=390, height=844)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    path = next((found for name in ("chromium", "chromium-browser") if (found := shutil.which(name))), None)
    if path is None:
        pytest.fail("there is no Chromium to show the console in: apt-get install chromium")
    quiet = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
    offline = [
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--disable-default-apps",
    ]
    async with async_playwright() as playwright:
        started = await playwright.chromium.launch(executable_path=path, args=quiet + offline)
        yield started
        await started.close()


class NoSink:
    async def samples(self, batch: Any) -> Any:
        raise AssertionError(f"unexpected {batch}")

    async def alerts(self, report: AlertReport) -> None:
        raise AssertionError(f"unexpected {report}")


@dataclasses.dataclass(frozen=True)
class Desk:
    """A page of the console and the story it shows. `complaints`: what the browser had to say against it."""

    page: Page
    story: Story
    url: str
    complaints: list[str]

    async def opens(self, fragment: str = f"token={TOKEN}") -> None:
        await self.page.goto(f"{self.url}/#{fragment}")

    async def shot(self, name: str) -> None:
        if folder := os.environ.get("HEALER_SCREENSHOTS"):
            await self.page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)


def a_fleet() -> Any:
    nodes = [
        a_node(
            f"node-{zone}{n}",
            zone=f"eu-west-1{zone}",
            cluster="prod",
            ready="Unknown" if (zone, n) == ("a", 1) else "True",
        )
        for zone in "abc"
        for n in range(1, 5)
    ]
    pods = [
        a_pod(f"web-{node.name}-{n}", on=node.name, cluster="prod", ready=node.name != "node-a1")
        for node in nodes
        for n in range(9)
    ]
    return a_cluster(*nodes, *pods, name="prod")


@contextlib.asynccontextmanager
async def a_desk(browser: Browser, **look: Any) -> AsyncIterator[Desk]:
    complaints: list[str] = []
    async with Story(a_fleet()) as story:
        site = Site(
            operator=story.people,
            sink=NoSink(),
            hooks={},
            ready=lambda: (),
            api_token=TOKEN,
            hook_token=None,
            extra=lambda: {"now": story.now},
        )
        async with listening(application(site), "127.0.0.1", 0) as url:
            context = await browser.new_context(**({"viewport": DESKTOP} | look))
            context.set_default_timeout(10_000)
            page = await context.new_page()
            page.on("console", lambda said: complaints.append(said.text) if said.type in ("error", "warning") else None)
            page.on("pageerror", lambda error: complaints.append(str(error)))
            await page.add_init_script(
                "addEventListener('securitypolicyviolation', (e) => console.error('CSP ' + e.violatedDirective))"
            )
            try:
                yield Desk(page, story, url, complaints)
            finally:
                await context.close()
    assert complaints == []


@pytest_asyncio.fixture(loop_scope="module")
async def desk(browser: Browser) -> AsyncIterator[Desk]:
    async with a_desk(browser) as found:
        yield found


async def test_it_opens_with_the_token_in_the_address_and_hides_it_at_once(desk: Desk) -> None:
    await desk.opens()
    await expect(desk.page.get_by_text("All quiet")).to_be_visible()
    await expect(desk.page.locator("#connection")).to_have_text("live")
    assert TOKEN not in desk.page.url
    await desk.page.reload()
    await expect(desk.page.locator("#connection")).to_have_text("live")
    await desk.shot("quiet")


async def test_a_wrong_token_leads_to_the_login_and_a_right_one_in(desk: Desk) -> None:
    await desk.opens("token=wrong")
    await expect(desk.page.locator("#login-why")).to_have_text("That token is not the right one.")
    await expect(desk.page.locator("#main")).to_be_hidden()
    await desk.shot("login")
    await desk.page.fill("#token", TOKEN)
    await desk.page.fill("#person", "Ann")
    await desk.page.click("#login button")
    await expect(desk.page.locator("#connection")).to_have_text("live")
    await expect(desk.page.locator("#login")).to_be_hidden()
    # The browser itself reports every answer with 401.
    desk.complaints[:] = [text for text in desk.complaints if "401" not in text]


async def test_without_a_token_there_is_only_the_login(desk: Desk) -> None:
    await desk.page.goto(desk.url)
    await expect(desk.page.locator("#token")).to_be_focused()
    await expect(desk.page.locator("#main")).to_be_hidden()
    await expect(desk.page.locator("#pause")).to_be_hidden()


async def test_an_incident_shows_live_from_its_opening_to_its_end(desk: Desk) -> None:
    page, story = desk.page, desk.story
    await desk.opens()
    incident = await story.opens()
    await expect(page.locator("#d-title")).to_have_text("NodeDown")
    await expect(page.locator("#d-headline")).to_have_text("Being decided")
    await story.decides(incident, Answer.WAIT, Reason.FLEET_BREAKER, "2 of 12 nodes are not healthy, 2 is the most")
    await expect(page.locator("#d-why")).to_contain_text("2 of 12 nodes are not healthy")
    await story.asks(incident)
    await expect(page.locator("#d-headline")).to_have_text("Waiting for your approval")
    operation = await story.starts(incident)
    await expect(page.locator("#d-state")).to_have_text("acting")
    await story.steps(incident, operation, "cordon")
    await expect(page.locator("#d-steps .mark").first).to_have_text("✓")
    await story.record(ev.StepStarted(at=story.now, incident=incident, operation=operation, step=1, action="drain"))
    await expect(page.locator("#d-steps .mark").nth(1)).to_have_text("…")
    await expect(page.locator("#d-why")).to_have_text("drain: started")
    await desk.shot("acting")
    await story.steps(incident, operation, "drain", index=1)
    await story.steps(incident, operation, "replace", index=2)
    await story.done(incident, operation)
    await expect(page.locator("#d-headline")).to_contain_text("being verified")
    await story.verified(incident, operation)
    await expect(page.locator("#d-headline")).to_contain_text("Fixed and verified after")
    await expect(page.locator("#d-phases li[data-is=over]")).to_have_count(4)
    texts = await page.locator("#d-timeline span").all_text_contents()
    assert texts == [entry.text for entry in reversed(story.view(incident).timeline)]
    await desk.shot("fixed")


async def test_approve_is_journalled_with_the_name_of_who_pressed_it(desk: Desk) -> None:
    page, story = desk.page, desk.story
    incident = await story.opens()
    await story.asks(incident)
    await page.goto(desk.url)
    await page.fill("#token", TOKEN)
    await page.fill("#person", "Ann: on call")
    await page.click("#login button")
    await expect(page.locator("#d-question")).to_have_text(
        "Carry out replace-dead-node on node/node-a1? It touches 1 Node, 3 Pods."
    )
    await expect(page.locator("#d-approvals")).to_contain_text("left")
    await expect(page).to_have_title("(1) Healer")
    await desk.shot("approve")
    await page.click("#approve")
    await expect(page.locator("#d-said")).to_have_text("Approved.")
    (given,) = story.answers()
    assert (given.by, given.via, given.accepted, given.approve) == ("Ann-on-call", "console", True, True)
    assert given.digest == story.recorder.memory.incidents[incident].approved_digest


async def test_an_answer_that_does_not_count_says_why(desk: Desk) -> None:
    page, story = desk.page, desk.story
    incident = await story.opens()
    await story.asks(incident)
    await desk.opens()
    await expect(page.locator("#deny")).to_be_visible()
    await story.people.answer(incident, approve=True, by="bob", via="cli")
    await page.click("#deny")
    await expect(page.locator("#d-said")).to_have_text("It has been decided already.")
    await expect(page.locator("#d-approvals")).to_contain_text("approved by bob")
    desk.complaints[:] = [text for text in desk.complaints if "409" not in text]


async def test_pause_and_resume_work_and_everybody_sees_it(desk: Desk) -> None:
    page, story = desk.page, desk.story
    await desk.opens()
    await page.click("#pause")
    await expect(page.locator("#paused")).to_contain_text("Paused by console")
    await expect(page.locator("#pause")).to_have_text("Resume")
    assert story.people.paused() == "console"
    await desk.shot("paused")
    await page.click("#pause")
    await expect(page.locator("#paused")).to_be_hidden()
    await story.people.pause(by="ann", why="a deploy")
    await expect(page.locator("#paused")).to_contain_text("Paused by ann: a deploy")
    kinds = [type(event).__name__ for event in story.journal.events]
    assert kinds == ["Paused", "Resumed", "Paused"]


async def test_cancel_is_journalled(desk: Desk) -> None:
    page, story = desk.page, desk.story
    incident = await story.opens()
    await story.starts(incident)
    await desk.opens()
    await page.click("#cancel")
    await expect(page.locator("#d-said")).to_contain_text("It stops before its next change")
    assert any(isinstance(event, ev.OperationCancelled) for event in story.journal.events)


async def test_the_map_shows_nodes_as_they_change(desk: Desk) -> None:
    page, story = desk.page, desk.story
    await story.opens()
    await desk.opens()
    await expect(page.locator(".node")).to_have_count(12)
    sick = page.locator('[data-node="node-a1"]')
    await expect(sick).to_have_attribute("data-tone", "bad")
    await expect(sick).to_contain_text("silent, 0/9 pods")
    await expect(sick).to_have_attribute("data-chosen", "true")
    await expect(page.locator("#clusters h2")).to_have_text("prod, 12 nodes, 1 down")
    fleet = story.states["prod"]
    cordoned = dataclasses.replace(fleet.nodes["node-b2"], unschedulable=True)
    story.states["prod"] = dataclasses.replace(fleet, nodes={**fleet.nodes, "node-b2": cordoned})
    await expect(page.locator('[data-node="node-b2"]')).to_contain_text("cordoned")


async def test_what_needs_a_person_stands_first_and_is_counted(desk: Desk) -> None:
    page, story = desk.page, desk.story
    closed = await story.opens("DiskFull", "node-c1")
    await story.closes(closed)
    asked = await story.opens("NodeDown", "node-a1")
    await story.asks(asked)
    lost = await story.opens("ZoneOutage", "node-b1")
    await story.escalates(lost, Reason.ZONE_OUTAGE, "4 of 4 nodes of a zone are down: nobody replaces a zone")
    working = await story.opens("MemoryPressure", "node-c2")
    await story.starts(working)
    await desk.opens()
    await expect(page.locator("#incidents b")).to_have_text(["NodeDown", "ZoneOutage", "MemoryPressure", "DiskFull"])
    await expect(page.locator("#count")).to_have_text("2 need you")
    await expect(page.locator("#d-title")).to_have_text("NodeDown")
    await page.click("#incidents li:nth-child(2) button")
    await expect(page.locator("#d-headline")).to_have_text("A person is needed")
    assert f"incident={lost}" in page.url
    await desk.shot("escalated")


async def test_a_link_to_an_incident_opens_that_incident(desk: Desk) -> None:
    first = await desk.story.opens("DiskFull", "node-c1")
    await desk.story.asks(await desk.story.opens())
    await desk.opens(f"incident={first}&token={TOKEN}")
    await expect(desk.page.locator("#d-title")).to_have_text("DiskFull")
    await expect(desk.page.locator("#d-timeline li")).to_have_count(1)


async def test_text_from_outside_is_shown_and_never_carried_out(desk: Desk) -> None:
    page, story = desk.page, desk.story
    incident = await story.opens(NASTY, "node-a1", summary=NASTY, injected=NASTY)
    await story.decides(incident, Answer.WAIT, Reason.COOLDOWN, NASTY, guard=NASTY)
    await story.people.pause(by=NASTY, why=NASTY)
    await desk.opens()
    await expect(page.locator("#d-title")).to_have_text(NASTY)
    await expect(page.locator("#d-alert-list")).to_contain_text(NASTY)
    await expect(page.locator("#d-timeline")).to_contain_text(NASTY)
    await expect(page.locator("#paused")).to_contain_text(NASTY)
    assert await page.title() == "Healer"
    assert await page.locator("main img[src=x], main script").count() == 0


async def test_a_press_is_not_lost_while_the_incident_changes_under_it(desk: Desk) -> None:
    page, story = desk.page, desk.story
    incident = await story.opens()
    await story.asks(incident)
    await desk.opens()
    await expect(page.locator("#approve")).to_be_visible()
    await page.locator("#approve").hover()
    await page.mouse.down()
    for n in range(3):
        await story.decides(incident, Answer.WAIT, Reason.COOLDOWN, f"change {n}", guard=f"g{n}")
    await expect(page.locator("#d-timeline")).to_contain_text("change 2")
    await page.mouse.up()
    await expect(page.locator("#d-said")).to_have_text("Approved.")


async def test_it_says_when_healer_cannot_be_reached_and_goes_on_by_itself(browser: Browser) -> None:
    async with Story(a_fleet()) as story:
        site = Site(
            operator=story.people,
            sink=NoSink(),
            hooks={},
            ready=lambda: (),
            api_token=TOKEN,
            hook_token=None,
            extra=lambda: {"now": story.now},
        )
        context = await browser.new_context(viewport=DESKTOP)
        page = await context.new_page()
        async with listening(application(site), "127.0.0.1", 0) as url:
            port = int(url.rpartition(":")[2])
            await page.goto(f"{url}/#token={TOKEN}")
            await expect(page.locator("#connection")).to_have_text("live")
        await expect(page.locator("#connection")).to_have_text("reconnecting")
        await expect(page.locator("#lost")).to_contain_text("Healer cannot be reached")
        incident = await story.opens()
        async with listening(application(site), "127.0.0.1", port):
            await expect(page.locator("#connection")).to_have_text("live", timeout=15_000)
            await expect(page.locator("#lost")).to_be_hidden()
            await expect(page.locator("#d-where")).to_contain_text(incident)
            await context.close()


LOOKS: dict[str, dict[str, Any]] = {
    "dark": {"color_scheme": "dark"},
    "phone": {"viewport": PHONE, "device_scale_factor": 2},
    "phone-dark": {"viewport": PHONE, "color_scheme": "dark", "device_scale_factor": 2},
}


@pytest.mark.parametrize("look", list(LOOKS))
async def test_everything_fits_on_a_phone_and_can_be_read_in_the_dark(browser: Browser, look: str) -> None:
    async with a_desk(browser, **LOOKS[look]) as desk:
        page, story = desk.page, desk.story
        await story.closes(await story.opens("DiskFull", "node-c1"))
        await story.escalates(await story.opens("ZoneOutage", "node-b1"), Reason.ZONE_OUTAGE, "4 of 4 nodes are down")
        incident = await story.opens("NodeDown", "node-a1", summary="node-a1 has not answered for 40 s " + "x" * 120)
        await story.decides(incident, Answer.WAIT, Reason.COOLDOWN, "20 s left", guard="cooldown")
        await story.asks(incident)
        await desk.opens()
        await expect(page.locator("#approve")).to_be_visible()
        await expect(page.locator(".node")).to_have_count(12)
        await desk.shot(look)
        width, inner = await page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert width <= inner
        ground, text = await page.evaluate(
            "['background-color', 'color'].map((name) => getComputedStyle(document.body).getPropertyValue(name))"
        )
        assert contrast(ground, text) > 7
        assert (luminance(ground) < 0.1) is ("dark" in look)
        go = page.locator("#approve")
        colours = await go.evaluate("(e) => [getComputedStyle(e).backgroundColor, getComputedStyle(e).color]")
        assert contrast(*colours) > 4.5


def luminance(colour: str) -> float:
    """Relative luminance of `rgb(r, g, b)`, as WCAG has it."""
    parts = [int(part) / 255 for part in colour.removeprefix("rgb(").removesuffix(")").split(", ")]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)
