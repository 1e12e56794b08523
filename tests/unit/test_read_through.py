"""Who is asked for a graph, and when, while the shared store is looked at."""

import asyncio

import pytest
from support.stores import META, key_of

from inductord.daemon.orders import Order
from inductord.daemon.read_through import ReadThrough

pytestmark = pytest.mark.unit

ORDER = Order(key_of(1), META.toolchain, META.kind, 1, "job", 0, False, {})


class Scene:
    """A shared store that answers when told to."""

    def __init__(self) -> None:
        self.answers: asyncio.Queue[str | Exception | None] = asyncio.Queue()
        self.looks = 0
        self.found: list[str] = []
        self.asked: list[str] = []
        self.through = ReadThrough[str](self._find, lambda key, artifact: self.found.append(artifact))

    async def _find(self, order: Order) -> str | None:
        self.looks += 1
        answer = await self.answers.get()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def ask(self, who: str) -> None:
        self.through.ask(ORDER, lambda: self.asked.append(who))

    async def answer(self, answer: str | Exception | None) -> None:
        self.answers.put_nowait(answer)
        for _ in range(5):
            await asyncio.sleep(0)


async def test_a_miss_asks_the_rank_that_leads_by_then_and_reads_once() -> None:
    scene = Scene()
    scene.ask("first")
    await asyncio.sleep(0)
    scene.ask("second")
    assert scene.asked == []
    await scene.answer(None)
    assert (scene.asked, scene.looks) == (["second"], 1)
    # The second one went away while it uploaded.
    scene.ask("third")
    assert (scene.asked, scene.looks) == (["second", "third"], 1)


async def test_a_hit_asks_nobody() -> None:
    scene = Scene()
    scene.ask("first")
    await scene.answer("artifact")
    assert (scene.asked, scene.found) == ([], ["artifact"])


async def test_a_read_goes_on_when_all_left_and_serves_who_comes_meanwhile() -> None:
    scene = Scene()
    scene.ask("first")
    await asyncio.sleep(0)
    scene.through.forget(ORDER.key)
    scene.ask("later")
    await scene.answer("artifact")
    assert (scene.asked, scene.found, scene.looks) == ([], ["artifact"], 1)


async def test_a_miss_is_not_remembered_beyond_its_flight() -> None:
    scene = Scene()
    scene.ask("first")
    await asyncio.sleep(0)
    scene.through.forget(ORDER.key)
    await scene.answer(None)
    assert scene.asked == []
    scene.ask("second")
    await scene.answer(None)
    assert (scene.asked, scene.looks) == (["second"], 2)
    scene.through.forget(ORDER.key)
    scene.ask("third")
    await scene.answer("artifact")
    assert (scene.found, scene.looks) == (["artifact"], 3)


async def test_a_defect_of_the_look_asks_the_rank(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene()
    scene.ask("first")
    await scene.answer(RuntimeError("a defect"))
    assert scene.asked == ["first"]
    assert "a defect" in caplog.text


async def test_closing_gives_up_what_is_under_way() -> None:
    scene = Scene()
    scene.ask("first")
    await asyncio.sleep(0)
    await scene.through.close()
    assert (scene.asked, scene.found) == ([], [])
