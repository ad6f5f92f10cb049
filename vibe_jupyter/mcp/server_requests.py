"""MCP servers during a run: preparing the prompt with them, answering their requests, and reporting changes.

Between runs, and outside of a server's own calls, requests are declined.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from vibe_jupyter.agent.agent import HookContext, PreparedPrompt, PromptParts
from vibe_jupyter.agent.approval import ask_user
from vibe_jupyter.agent.call_context import CallContext, ToolStep
from vibe_jupyter.agent.told_results import withheld_result
from vibe_jupyter.config.tool_servers import ServerAddress, ToolServer
from vibe_jupyter.errors import ConfigError, JournalError, ModelError, ServerError, ToolError
from vibe_jupyter.files.truncation import spill_result
from vibe_jupyter.mcp.connection import ServerConnection
from vibe_jupyter.mcp.elicitation import answer_elicitation
from vibe_jupyter.mcp.hooks import OfferedFeature, OpenCalls, ServerPause, SideTasks
from vibe_jupyter.mcp.oauth_redirect import HOST, PATH, NobodyAsked
from vibe_jupyter.mcp.resources import NamedSource, PromptCall, ServerOfferings, fetch_prompt, resource_result
from vibe_jupyter.mcp.sampling import Sampling
from vibe_jupyter.mcp.token_store import MemoryStore, SecretStore, store_name
from vibe_jupyter.mcp.tool_names import RemoteTool
from vibe_jupyter.protocol import AssistantMessage, Headline, Notice, Question, TextPart
from vibe_jupyter.safe_imports import without_working_folder
from vibe_jupyter.tools.contract import ToolContext

if TYPE_CHECKING:
    import httpx2
    from mcp_types import (
        CreateMessageRequestParams,
        CreateMessageResult,
        ElicitRequestParams,
        ElicitResult,
        ErrorData,
        ListRootsResult,
    )

QUESTIONS: Final = 20  # questions of a server to the user within one call
OUTSIDE: Final = "asked outside of a call; declined"
_REJECTED: Final = -1  # error code of the protocol for a request that the user rejected

_SIGNED: Final = "authorization"  # a declared key is sent in this header; such a server needs no sign-in

NAMED: Final = 10  # tools named in one sentence

RESOURCES: Final = 5  # resources fetched for one prompt
RESOURCE_LIMIT: Final = 20_000  # characters of one resource included in the prompt; the rest goes to a file
READ_TIMEOUT: Final = 60.0  # seconds for reading one resource
_NO_PROMPTS: Final = "Nothing was sent: [privacy] mode in your config.toml lets no text of MCP servers be sent."


class ServerRequests:
    """Hooks of all servers of a kernel, bound to the current run. Engine loop only."""

    offers: frozenset[OfferedFeature] = frozenset({"elicitation", "sampling", "roots"})

    def __init__(self, folder: Path, store: SecretStore | None = None) -> None:
        """Create the hooks of a project.

        Args:
            folder: the root that is reported to servers.
            store: stores the tokens of sign-ins; None keeps them in memory.
        """
        self.calls = OpenCalls()
        self.sign_ins = SignIns(store or MemoryStore(), self.calls)
        self.news = ToolChanges()
        self.note: Callable[[str, str], None] = _log_nowhere  # adds a line to a server's log, given the server's name
        self._folder = folder
        self._sampling: Sampling | None = None  # None between runs
        self._asked: Counter[tuple[str, str]] = Counter()  # number of questions by (server, call)
        self._one_card = asyncio.Lock()  # a call has room for one card at a time

    def take(self, hook_context: HookContext) -> None:
        """Attach to a run."""
        self._sampling = Sampling(hook_context)
        self._asked.clear()
        self.news.begin(hook_context.call_context)
        self.sign_ins.begin(hook_context.call_context)

    async def leave(self) -> None:
        """Detach from the run at its end."""
        self._sampling = None
        self.news.end()
        await self.sign_ins.end()

    async def elicit(self, server: str, params: "ElicitRequestParams") -> "ElicitResult | ErrorData":
        """Ask the user on a card that names the server. Declined if nobody answers."""
        from mcp_types import ElicitResult  # noqa: PLC0415 - already loaded: one of our servers is running

        async def ask(context: ToolContext) -> "tuple[ElicitResult, str]":
            self._asked[server, context.call_id] += 1
            if self._asked[server, context.call_id] > QUESTIONS:
                return ElicitResult(action="decline"), f"declined: asked more than {QUESTIONS} times in one call"
            async with self._one_card:
                return await answer_elicitation(server, params, context.ask)

        said = ElicitResult(action="decline"), OUTSIDE
        if self.calls.has(server):
            said = ElicitResult(action="cancel"), "the call was over before it was answered"
            with suppress(JournalError):  # the run encounters the same journal error and reports it
                said = await self.calls.ask_for(server, ask) or said
        self.note(server, f"question to you: {said[1]}")
        return said[0]

    async def sample(self, server: str, params: "CreateMessageRequestParams") -> "CreateMessageResult | ErrorData":
        """Have the run's model respond, if the user approves on a card."""
        from mcp_types import ErrorData  # noqa: PLC0415 - already loaded: one of our servers is running

        sampling = self._sampling
        try:
            if sampling is None:
                raise ToolError(OUTSIDE)
            answer = await self.calls.ask_for(server, lambda _: sampling.answer(server, params))
            if answer is None:
                raise ToolError(OUTSIDE)
        except (ToolError, ModelError, JournalError) as error:
            self.note(server, f"request to the model: {error}")
            return ErrorData(code=_REJECTED, message=str(error))
        self.note(server, f"request to the model: answered, {len(answer.text):,} characters")
        return _sampling_result(answer)

    async def roots(self) -> "ListRootsResult | ErrorData":
        """Return the project folder as the only root."""
        from mcp_types import ListRootsResult, Root  # noqa: PLC0415 - already loaded: one of our servers is running
        from pydantic import FileUrl  # noqa: PLC0415

        return ListRootsResult(roots=[Root(uri=FileUrl(self._folder.as_uri()), name=self._folder.name or None)])

    def log(self, server: str, level: str, text: str) -> None:
        """Do nothing: the connection has stored the line already."""

    def auth(self, server: ToolServer, pause: ServerPause) -> "httpx2.Auth | None":
        """Return authentication for a remote server's requests."""
        return self.sign_ins.auth(server, pause)


def _sampling_result(answer: AssistantMessage) -> "CreateMessageResult":
    from mcp_types import CreateMessageResult, TextContent  # noqa: PLC0415 - already loaded: one of our servers is running

    return CreateMessageResult(
        role="assistant",
        content=TextContent(text=answer.text),
        model=answer.model or "model",
        stop_reason="maxTokens" if answer.stop_reason == "length" else "endTurn",
    )


def _log_nowhere(server: str, line: str) -> None:
    return None


class SignIns:
    """OAuth sign-ins to remote servers. Engine loop only."""

    def __init__(self, store: SecretStore, calls: OpenCalls) -> None:
        self._store = store
        self._calls = calls
        self._call_context: CallContext | None = None  # context of the current run
        # (server, host of the page) pairs that the user declined to sign in to
        self._declined: set[tuple[str, str]] = set()
        self._shown = SideTasks()  # cards shown outside of calls

    def begin(self, call_context: CallContext) -> None:
        """Attach to a run."""
        self._call_context = call_context

    async def end(self) -> None:
        """Detach from the run and close its cards."""
        self._call_context = None
        await self.stop()

    def auth(self, server: ToolServer, pause: ServerPause) -> "httpx2.Auth | None":
        """Return authentication for a server, or None for a local program or a declared key."""
        at = server.at
        if not isinstance(at, ServerAddress) or any(name.lower() == _SIGNED for name in at.headers):
            return None
        with without_working_folder():
            from vibe_jupyter.mcp.sign_in import SignIn  # noqa: PLC0415 - imported with the SDK, when a server starts

        return SignIn(at.url, self._store, partial(self._show_page, server.name), pause)

    def ask_again(self, server: str) -> None:
        """Forget that the user declined to sign in to this server."""
        self._declined = {one for one in self._declined if one[0] != server}

    def forget(self, server: ToolServer) -> None:
        """Sign out of a removed server, and allow a later server of this name to ask again."""
        self.ask_again(server.name)
        if isinstance(server.at, ServerAddress):
            self._store.put(store_name(server.at.url), "")

    async def stop(self) -> None:
        """Close the cards shown outside of calls."""
        await self._shown.end()

    async def _show_page(self, server: str, address: str, host: str, fits: Callable[[str], bool]) -> bool:
        """Show the sign-in page on a card until the user's input is accepted by `fits`.

        Returns False if the user declined. Canceled when the browser has finished the sign-in.
        """
        call_context = self._call_context
        if call_context is None:
            raise NobodyAsked(f"it requires you to sign in at {host}, which a %%vibe cell asks for")
        if not await call_context.attended():
            raise NobodyAsked(f"it requires you to sign in at {host}, and nobody is here to do that")
        if (server, host) in self._declined:
            raise NobodyAsked("it requires you to sign in, which you declined")
        card = SignInPage(server, address, host)
        if self._calls.has(server):
            return bool(await self._calls.ask_for(server, lambda _: self._show_card(call_context, card, fits)))
        return bool(await self._shown.run(self._show_card(call_context, card, fits)))

    async def _show_card(self, call_context: CallContext, page: "SignInPage", fits: Callable[[str], bool]) -> bool:
        headline = Headline(
            verb="Signed in to", doing="Signing in to", asking="Sign in to", target=page.server, note=f"at {page.host}"
        )
        step = ToolStep("sign_in", headline, host=page.server)
        await call_context.emit(step.started())
        asker = f"the server {page.server}"
        try:
            answers = await ask_user([page.question()], call_context, call_id=step.id, asker=asker)
            while answers is not None and not fits(answers[0].other if answers else ""):
                answers = await ask_user([page.question(again=True)], call_context, call_id=step.id, asker=asker)
        except asyncio.CancelledError:
            if call_context.cancelled() or self._call_context is not call_context:
                await call_context.emit(step.finished("interrupted"))
            else:
                await call_context.emit(step.finished("ok", self._store.how_long))
            raise
        if answers is None:
            self._declined.add((page.server, page.host))
            await call_context.emit(step.finished("error", "you skipped it"))
            return False
        await call_context.emit(step.finished("ok", "address pasted"))
        return True


@dataclass(frozen=True)
class SignInPage:
    """A sign-in page requested by a server."""

    server: str
    address: str
    host: str

    def question(self, *, again: bool = False) -> Question:
        """Return the question for the card. If asked again, it explains what was missing."""
        text = (
            f"The server {self.server} asks you to sign in at {self.host}. Open the page only if you know that host; "
            "this card goes when you are done there. If your browser cannot show the last page, paste its address here."
        )
        missing = (
            "The browser has not come back, and what you typed is not the whole address of the last page of this "
            f"sign-in: http://{HOST}:…{PATH}?code=…&state=…. "
        )
        return Question(question=f"{missing}{text}" if again else text, header="Sign in", link=self.address)


class ListedTools(Protocol):
    """The part of a connection that is compared."""

    server: ToolServer
    tools: tuple[RemoteTool, ...]


class ToolChanges:
    """Reports added and removed tools to the user. Engine loop only."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[ToolServer, frozenset[str]]] = {}  # declaration and tool names, by server name
        self._call_context: CallContext | None = None  # context of the current run
        self._telling: set[asyncio.Task[None]] = set()

    def begin(self, call_context: CallContext) -> None:
        """Start reporting at the beginning of a run."""
        self._call_context = call_context

    def end(self) -> None:
        """Stop reporting at the end of the run."""
        self._call_context = None

    def heard(self, connection: ListedTools) -> None:
        """Handle a change of a server's tools. Callable at any time."""
        if self._call_context is None:
            return
        task = asyncio.ensure_future(self._tell_changes_of(connection))
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    async def look(self, connections: Sequence[ListedTools]) -> None:
        """Report changes since the last comparison. A server's first tool list isn't reported.

        Raises:
            JournalError: never in practice, since notices are not stored.
        """
        for connection in connections:
            await self._tell_changes(connection)

    async def _tell_changes_of(self, connection: ListedTools) -> None:
        try:
            await self._tell_changes(connection)
        except JournalError:
            return

    async def _tell_changes(self, connection: ListedTools) -> None:
        names = frozenset(tool.name for tool in connection.tools)
        server = connection.server
        declared, before = self._known.get(server.name, (server, names))
        if self._call_context is None:
            return
        self._known[server.name] = (server, names)
        if declared != server or before == names:
            return
        came, went = sorted(names - before), sorted(before - names)
        words = [
            f"new tools: {_name_list(came)}" if came else "",
            f"no longer there: {_name_list(went)}" if went else "",
        ]
        said = "; ".join(filter(None, words))
        await self._call_context.emit(Notice(level="info", text=f"The MCP server {server.name} has {said}."))


def _name_list(names: Iterable[str]) -> str:
    all_names = list(names)
    more = f" and {len(all_names) - NAMED} more" if len(all_names) > NAMED else ""
    return ", ".join(f"`{name}`" for name in all_names[:NAMED]) + more


class RunningServers(Protocol):
    """The operations on a kernel's servers that a run needs."""

    async def start(self, names: Sequence[str]) -> list[str]:
        """Start some servers and return their problems."""
        ...

    def get(self, name: str) -> ServerConnection | None:
        """Return the server with this name, or None."""
        ...


@dataclass(frozen=True)
class NamedOnServers:
    """References to servers in the user's prompt."""

    resources: Sequence[tuple[str, str]] = ()  # (server, URI) pairs written as ``@server:address``
    prompt: PromptCall | None = None  # ``/server:prompt`` at the start, or None


class McpRunHooks:
    """MCP hooks of one run."""

    def __init__(
        self,
        servers: RunningServers,
        requests: ServerRequests,
        names: Sequence[str],
        *,
        wanted: NamedOnServers,
        sees_images: bool,
    ) -> None:
        """Prepare a run without starting anything.

        Args:
            servers: the kernel's servers.
            requests: handler of their requests.
            names: servers that may run, in declaration order.
            wanted: references to servers in the prompt.
            sees_images: whether the model accepts images.
        """
        self._servers = servers
        self._requests = requests
        self._names = names
        self._wanted = wanted
        self._sees_images = sees_images

    async def begin(self, hook_context: HookContext) -> PreparedPrompt:
        """Start the servers concurrently and fetch what the prompt refers to.

        Raises:
            ConfigError: the prompt doesn't exist or its arguments are wrong.
            ServerError: the prompt's server does not respond.
            JournalError: a step could not be recorded.
        """
        self._requests.take(hook_context)
        self._requests.note = self._note_problem
        before = _missing_servers(await self._start_servers(hook_context))
        for server, uri in dict.fromkeys(self._wanted.resources):
            before = (*before, *await self._fetch_resource(hook_context, server, uri))
        if self._wanted.prompt is None:
            return PreparedPrompt(before=before)
        return PreparedPrompt(before=before, instead=await self._fetch_prompt(hook_context, self._wanted.prompt))

    async def end(self) -> None:
        """Stop answering the servers' requests. The servers keep running."""
        await self._requests.leave()

    def _note_problem(self, server: str, text: str) -> None:
        connection = self._servers.get(server)
        if connection is not None:
            connection.note(text)

    async def _start_servers(self, hook_context: HookContext) -> Sequence[ServerConnection]:
        connections = [one for name in self._names if (one := self._servers.get(name)) is not None]
        if waiting := [one for one in connections if one.state == "stopped"]:
            problems = await self._start_as_step(hook_context.call_context, waiting)
        else:
            problems = await self._servers.start(self._names)
        for problem in problems:
            await hook_context.call_context.emit(Notice(level="warning", text=problem))
        for one in connections:
            one.on_change = _bind_connection(self._requests.news.heard, one)
        await self._requests.news.look([one for one in connections if one.state == "ready"])
        return connections

    async def _start_as_step(self, call_context: CallContext, waiting: Sequence[ServerConnection]) -> list[str]:
        """Show a step for what delays the first request: importing the SDK and starting the servers."""
        names = ", ".join(one.server.name for one in waiting)
        what = "the MCP server" if len(waiting) == 1 else "the MCP servers"
        headline = Headline(verb=f"Started {what}", doing=f"Starting {what}", asking=f"Start {what}", target=names)
        step = ToolStep("start_servers", headline, host=names)
        await call_context.emit(step.started())
        try:
            problems = await self._servers.start(self._names)
        except asyncio.CancelledError:
            await self._requests.sign_ins.stop()
            await call_context.emit(step.finished("interrupted"))
            raise
        failed = [one.server.name for one in waiting if one.state != "ready"]
        summary = f"not started: {', '.join(failed)}" if failed else ""
        await call_context.emit(step.finished("error" if len(failed) == len(waiting) else "ok", summary))
        return problems

    async def _fetch_resource(self, hook_context: HookContext, server: str, uri: str) -> PromptParts:
        if list(dict.fromkeys(self._wanted.resources)).index((server, uri)) >= RESOURCES:
            return (TextPart(text=f"@{server}:{uri} was not read: at most {RESOURCES} resources go with one prompt."),)
        headline = Headline(verb="Read", doing="Reading", asking="Read", target=f"{server}:{uri}")
        step = ToolStep("read_resource", headline, host=server)
        await hook_context.call_context.emit(step.started())
        try:
            connection = self._connection_to(server)
            answer = await connection.request(lambda client: client.read_resource(uri), timeout=READ_TIMEOUT)
        except (ServerError, ConfigError) as error:
            await hook_context.call_context.emit(step.finished("error", str(error)))
            return (TextPart(text=f"@{server}:{uri} could not be read: {str(error).splitlines()[0]}"),)
        except asyncio.CancelledError:
            await hook_context.call_context.emit(step.finished("interrupted"))
            raise
        result = resource_result(answer.contents, NamedSource(server, uri), sees_images=self._sees_images)
        await hook_context.call_context.emit(step.finished("ok", result.summary, display=result.display))
        if hook_context.call_context.schema_only:
            result = withheld_result(result)
        return (await asyncio.to_thread(spill_result, result, hook_context.call_context.results, RESOURCE_LIMIT)).parts

    async def _fetch_prompt(self, hook_context: HookContext, call: PromptCall) -> PromptParts:
        if hook_context.call_context.schema_only:
            raise ConfigError(_NO_PROMPTS)
        target = f"/{call.server}:{call.name}"
        headline = Headline(verb="Took the prompt", doing="Taking the prompt", asking="Take the prompt", target=target)
        step = ToolStep("get_prompt", headline, host=call.server)
        await hook_context.call_context.emit(step.started())
        try:
            connection = self._connection_to(call.server)
            parts = await fetch_prompt(call, connection, ServerOfferings(connection), sees_images=self._sees_images)
        except (ServerError, ConfigError) as error:
            await hook_context.call_context.emit(step.finished("error", str(error).splitlines()[0]))
            raise
        except asyncio.CancelledError:
            await hook_context.call_context.emit(step.finished("interrupted"))
            raise
        text = "\n".join(part.text for part in parts if isinstance(part, TextPart))
        await hook_context.call_context.emit(
            step.finished("ok", f"{len(text):,} characters", display={"text/plain": text})
        )
        return tuple(parts)

    def _connection_to(self, server: str) -> ServerConnection:
        found = self._servers.get(server) if server in self._names else None
        if found is None:
            names = ", ".join(self._names) or "none"
            raise ConfigError(f"There is no MCP server {server!r} to ask. Those that may run: {names}. See %vibe mcp.")
        return found


def _bind_connection(heard: Callable[[ServerConnection], None], connection: ServerConnection) -> Callable[[], None]:
    return lambda: heard(connection)


def _missing_servers(connections: Sequence[ServerConnection]) -> PromptParts:
    """Name the servers that don't run in the prompt, because the system prompt was written before they were started."""
    missing = [one.server.name for one in connections if one.state != "ready"]
    if not missing:
        return ()
    return (TextPart(text=f"MCP servers that failed, so their tools are missing: {', '.join(missing)}."),)
