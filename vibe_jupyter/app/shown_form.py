"""The open connect form in a cell's output: its contents and the handling of its buttons."""

import asyncio
import concurrent.futures
import contextlib
from collections.abc import Coroutine, Mapping
from typing import Any, Final, NamedTuple

from vibe_jupyter.app.model_check import CheckStep, run_check
from vibe_jupyter.app.model_setup import (
    OFFERS,
    ModelConnection,
    ModelSetup,
    ProviderOffer,
    ServerModel,
    completed_address,
    find_offer,
    list_server_models,
)
from vibe_jupyter.errors import ConfigError, ModelError
from vibe_jupyter.ui.connect_page import (
    ALIVE_WITHIN,
    ConnectEnded,
    ConnectWanted,
    DemoWanted,
    FormAlive,
    FormCancelled,
    FormContents,
    FormPage,
    FromForm,
    ModelsListed,
    ModelsWanted,
    OfferedModel,
    OfferedPlace,
    OfferedProvider,
    StepTested,
)
from vibe_jupyter.ui.front_end import CallOnMainThread

CANCELLED: Final = "No model was connected. %vibe setup shows the form again."
LOOPBACK_WAIT: Final = 0.1  # seconds to wait for a server on this computer to accept a connection


class FormEnd(NamedTuple):
    """Outcome of a form."""

    connected: bool
    text: str  # text that replaces the form in the output


class FormTerms(NamedTuple):
    """Reason for showing the form, and whether connecting sends the cell's prompt."""

    reason: str
    runs_cell: bool


class ShownForm:
    """An open connect form. Engine loop only, except for `cancel`."""

    def __init__(
        self,
        setup: ModelSetup,
        terms: FormTerms,
        call_main: CallOnMainThread,
        over: "concurrent.futures.Future[FormEnd | None]",
    ) -> None:
        self.page = FormPage(self._hear)
        self._setup = setup
        self._terms = terms
        self._call_main = call_main
        self._over = over
        self._alive = asyncio.Event()
        self._tasks: dict[str, asyncio.Task[None]] = {}  # latest task of each kind; a new one cancels its predecessor

    def cancel(self) -> None:
        """Cancel the form. Thread-safe."""
        self._end(FormEnd(False, CANCELLED))

    async def work(self) -> None:
        """Serve the page until the form is closed. Ends after `ALIVE_WITHIN` seconds if no page draws it."""
        self.page.listen()
        try:
            async with asyncio.timeout(ALIVE_WITHIN):
                await self._alive.wait()
        except TimeoutError:
            self._end(None)
            return
        try:
            await asyncio.wrap_future(self._over)
        finally:
            for task in self._tasks.values():
                task.cancel()

    def _end(self, end: FormEnd | None) -> None:
        with contextlib.suppress(concurrent.futures.InvalidStateError):  # already closed
            self._over.set_result(end)

    def _hear(self, message: FromForm) -> None:
        match message:
            case FormAlive():
                self._alive.set()
                self._begin("form", self._offer())
            case ModelsWanted():
                self._begin("models", self._list_models(message))
            case ConnectWanted():
                self._begin("connect", self._connect(message))
            case DemoWanted():
                self._begin("connect", self._use_demo())
            case FormCancelled():
                self.cancel()

    def _begin(self, kind: str, work: Coroutine[Any, Any, None]) -> None:
        if (earlier := self._tasks.get(kind)) is not None:
            earlier.cancel()
        self._tasks[kind] = asyncio.create_task(work)

    async def _offer(self) -> None:
        listening = await asyncio.gather(*(is_listening(offer.port) for offer in OFFERS))
        contents = await self._call_main(lambda: self._contents(dict(zip(OFFERS, listening, strict=True))))
        self.page.tell(contents)

    def _contents(self, listening: Mapping[ProviderOffer, bool]) -> FormContents:
        providers = [self._offered(offer, is_found=found) for offer, found in listening.items()]
        here = next((one["id"] for one in providers if one["state"] == "found"), "")
        keyed = next((one["id"] for one in providers if one["key_from"]), "")
        places = [OfferedPlace(id=place, label=label) for place, label in self._setup.places().items()]
        return FormContents(
            type="form",
            reason=self._terms.reason,
            runs_cell=self._terms.runs_cell,
            chosen=here or keyed or providers[0]["id"],
            providers=sorted(providers, key=lambda one: one["state"] != "found"),
            places=places,
        )

    def _offered(self, offer: ProviderOffer, *, is_found: bool) -> OfferedProvider:
        key_from = self._setup.key_location(ModelConnection(offer, offer.api_base))
        return OfferedProvider(
            id=offer.id,
            label=offer.label,
            api_base=offer.api_base,
            asks_key=offer.may_need_key,
            key_from=key_from,
            key_page=offer.key_page,
            state=("found" if is_found else "not running") if offer.port else "key found" if key_from else "",
        )

    async def _list_models(self, wanted: ModelsWanted) -> None:
        connection = ModelConnection(
            find_offer(wanted.provider), completed_address(wanted.api_base), wanted.key.strip()
        )
        models: list[ServerModel] = []
        error = ""
        try:
            model = await self._call_main(lambda: self._setup.model(connection))
            listed = await list_server_models(model)
            models = await self._call_main(lambda: self._setup.models_first(connection, listed))
        except (ConfigError, ModelError) as problem:
            error = str(problem)
        offered = [OfferedModel(name=one.name, about=one.about) for one in models]
        self.page.tell(ModelsListed(type="models", seq=wanted.seq, models=offered, error=error))

    async def _connect(self, wanted: ConnectWanted) -> None:
        offer = find_offer(wanted.provider)
        name = wanted.model.strip()
        connection = ModelConnection(offer, completed_address(wanted.api_base), wanted.key.strip(), name, wanted.place)
        try:
            if not name:
                raise ConfigError("Choose a model, or type the name that its server knows it by.")
            model = await self._call_main(lambda: self._setup.model(connection))
            is_well = wanted.then == "save_untested" or await run_check(model, self._tell_step)
            if not is_well or wanted.then == "test":
                self.page.tell(ConnectEnded(type="ended", ok=is_well))
                return
            said = await self._call_main(lambda: self._setup.save(connection))
        except (ConfigError, ModelError) as problem:
            self.page.tell(ConnectEnded(type="ended", ok=False, error=str(problem)))
            return
        self._end(FormEnd(True, f"Connected. {said}"))

    async def _use_demo(self) -> None:
        self._end(FormEnd(True, await self._call_main(self._setup.use_tour)))

    def _tell_step(self, step: CheckStep) -> None:
        told = StepTested(type="tested", name=step.name, state=step.state, detail=step.detail, seconds=step.seconds)
        self.page.tell(told)


async def is_listening(port: int | None) -> bool:
    """Return whether a server on this computer accepts connections. Sends nothing."""
    if port is None:
        return False
    try:
        async with asyncio.timeout(LOOPBACK_WAIT):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True
