"""FilesActor: the file requests of one session.

Each is carried out in a thread, a few at a time: answers come in any order, but for those about one handle. Nothing new
is begun while the client does not take what it has been sent.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec
from thespian.actors import ActorExitRequest

from actors.base.actor import BaseActor, log
from actors.base.messages import (
    Address,
    Answer,
    BridgeAttached,
    BridgeDetached,
    Call,
    Failure,
    FlushWaits,
    Notify,
    OpenService,
    PauseOutput,
)
from actors.services.file_table import MAX_HANDLES, FileTable, HandleQueue
from actors.system.budget import HANDLES
from actors.system.files import carry_out
from actors.system.filesystem.handles import check_handle_id
from actors.system.filesystem.watching import LOOK_EVERY_S, MAX_WATCHES, Watch
from actors.system.pool import FILE_POOL
from protocol.errors import ExecServerError, InternalError, InvalidRequest, LimitReached
from protocol.filesystem import (
    CloseParams,
    CopyParams,
    CreateDirectoryParams,
    MissingChanged,
    OpenParams,
    ReadBlockParams,
    ReadFileParams,
    RemoveParams,
    WatchMissingParams,
    WatchMissingResult,
    WriteBlockParams,
    WriteFileParams,
)
from protocol.sandbox import to_enforce
from protocol.wire_types import WireStruct

AT_ONCE = 4
"""Requests of a session that are carried out at the same time; the others wait in the order in which they came."""
WHOLE_FILES_AT_ONCE = 2
"""How many of these may be fs/readFile, whose answers may be as long as a message."""
ON_HANDLES = (OpenParams, ReadBlockParams, WriteBlockParams, CloseParams)
CHANGING = (WriteFileParams, CreateDirectoryParams, RemoveParams, CopyParams)
"""Requests without a handle that are carried out even if nobody hears the answer any more."""

Outcome = WireStruct | ExecServerError


class Done(msgspec.Struct, frozen=True, gc=False):
    """From a thread to the actor: what became of this call of this connection. `lane` None: it names no handle."""

    call: Call
    table: Any
    lane: Any
    outcome: Any


class Looked(msgspec.Struct, frozen=True, gc=False):
    """From a thread to the actor: these watches of this connection are over."""

    table: Any
    over: list[Any]


class FilesActor(BaseActor):
    """Carries out the file requests of one session."""

    opens_with = OpenService

    def __init__(self) -> None:
        super().__init__()
        self._attached: BridgeAttached | None = None
        self._paused = False
        self._session_id = ""
        self._table = FileTable(self._handle_closed)
        self._retired: list[FileTable] = []
        """Tables of former connections that still have something to write."""
        self._waiting: deque[Call | HandleQueue] = deque()
        self._whole_files: deque[Call] = deque()
        self._running = 0
        self._reading = 0

    # -- the session --------------------------------------------------------------------------------------------

    def receiveMsg_OpenService(self, message: OpenService, connection: Address) -> None:
        self._attached = message.attached
        self._paused = message.paused
        self._session_id = message.session_id

    def receiveMsg_BridgeAttached(self, message: BridgeAttached, connection: Address) -> None:
        self._attached = message

    def receiveMsg_BridgeDetached(self, message: BridgeDetached, connection: Address) -> None:
        """What has begun is finished, and so is what changes something; what only reads is not begun."""
        if not message.of_owner:
            return
        self._attached = None
        self._whole_files.clear()
        self._waiting = deque(each for each in self._waiting if isinstance(each, HandleQueue) or changes(each))
        self._retired.append(self._table)
        self._table.retire()
        self._table = FileTable(self._handle_closed)
        self._forget_retired()
        self._go_on()

    def receiveMsg_PauseOutput(self, message: PauseOutput, connection: Address) -> None:
        self._paused = message.paused
        self._go_on()

    def receiveMsg_FlushWaits(self, message: FlushWaits, connection: Address) -> None:
        """No file request waits for anything but its turn."""

    def receiveMsg_ActorExitRequest(self, message: ActorExitRequest, connection: Address) -> None:
        """The session is over: the threads finish what changes something by themselves."""
        rest = [each for each in self._waiting if isinstance(each, Call) and changes(each)]
        for call in rest:
            FILE_POOL.submit(lambda call=call: outcome_of(call, lambda: carry_out_for(None, call, None)))  # type: ignore[misc]
        for table in (*self._retired, self._table):
            table.abandon()

    def _forget_retired(self) -> None:
        self._retired = [table for table in self._retired if not table.is_empty]

    # -- requests -----------------------------------------------------------------------------------------------

    def receiveMsg_Call(self, call: Call, connection: Address) -> None:
        try:
            self._take(call)
        except ExecServerError as error:
            self._answer(call, error)
        self._go_on()

    def _take(self, call: Call) -> None:
        params = call.params
        if isinstance(params, OpenParams):
            check_handle_id(params.handle_id)
        if isinstance(params, ON_HANDLES):
            lane = self._table.lane(params.handle_id)
            lane.waiting.append(call)
            if not lane.queued:
                lane.queued = True
                self._waiting.append(lane)
        elif isinstance(params, ReadFileParams):
            self._whole_files.append(call)
        elif isinstance(params, WatchMissingParams) and self._table.watches.pop(params.watch_id, None) is not None:
            self._answer(call, WatchMissingResult(False))
        else:
            self._waiting.append(call)

    def _go_on(self) -> None:
        while not self._paused and self._running < AT_ONCE:
            if self._whole_files and self._reading < WHOLE_FILES_AT_ONCE:
                self._reading += 1
                self._begin(self._whole_files.popleft(), self._table, None)
            elif not self._waiting:
                return
            elif isinstance(first := self._waiting.popleft(), HandleQueue):
                self._begin_in(first)
            else:
                self._begin(first, self._table, None)

    def _begin_in(self, lane: HandleQueue) -> None:
        table = lane.table
        if not lane.waiting:
            self._settle(lane)
            return
        call = lane.waiting.popleft()
        if isinstance(call.params, OpenParams) and not table.admit(lane):
            text = f"at most {MAX_HANDLES} file handles may be open per connection"
            self._running += 1
            self.receiveMsg_Done(Done(call, table, lane, InvalidRequest(text, {"kind": "tooMany"})), self.myAddress)
        elif isinstance(call.params, OpenParams) and not lane.granted:
            self._open(lane, call)
        else:
            lane.begin()
            self._begin(call, table, lane)

    def _open(self, lane: HandleQueue, call: Call) -> None:
        """Open a handle, if there is one left for all sessions."""
        try:
            HANDLES.take(self._session_id)
        except LimitReached as error:
            self._running += 1
            self.receiveMsg_Done(Done(call, lane.table, lane, error), self.myAddress)
            return
        lane.granted = True
        lane.begin()
        self._begin(call, lane.table, lane)

    def _handle_closed(self) -> None:
        HANDLES.give_back(self._session_id)

    def _begin(self, call: Call, table: FileTable, lane: HandleQueue | None) -> None:
        self._running += 1
        room = None if self._attached is None else self._attached.max_bytes
        me = self.myAddress

        def work() -> None:
            outcome = outcome_of(call, lambda: carry_out_for(lane, call, room))
            if lane is not None:
                lane.finish()
            self.send(me, Done(call, table, lane, outcome))

        FILE_POOL.submit(work, self._session_id)

    def receiveMsg_Done(self, message: Done, sender: Address) -> None:
        self._running -= 1
        call, table, outcome = message.call, message.table, message.outcome
        if isinstance(call.params, ReadFileParams):
            self._reading -= 1
        if not table.is_retired:
            if isinstance(outcome, WatchMissingResult) and outcome.watching:
                outcome = self._keep_watch(table, call)
            self._answer(call, outcome)
        if message.lane is not None:
            self._settle(message.lane)
        self._go_on()

    def _settle(self, lane: HandleQueue) -> None:
        lane.queued = bool(lane.waiting)
        if lane.queued:
            self._waiting.append(lane)
        lane.table.settle(lane)
        if lane.table.is_retired:
            self._forget_retired()

    def _answer(self, call: Call, outcome: Outcome) -> None:
        if isinstance(outcome, ExecServerError):
            self.send(call.bridge, Failure(call.token, outcome))
        else:
            self.send(call.bridge, Answer(call.token, outcome))

    # -- watches ------------------------------------------------------------------------------------------------

    def _keep_watch(self, table: FileTable, call: Call) -> Outcome:
        params = call.params
        assert isinstance(params, WatchMissingParams)
        if table.watches.pop(params.watch_id, None) is not None:
            return WatchMissingResult(False)
        if len(table.watches) == MAX_WATCHES:
            text = f"at most {MAX_WATCHES} watches may be active per connection"
            return InvalidRequest(text, {"kind": "tooMany"})
        table.watches[params.watch_id] = Watch(params), call.bridge
        self.deadlines.set("look", LOOK_EVERY_S, self._look)
        return WatchMissingResult(True)

    def _look(self) -> None:
        table, me = self._table, self.myAddress
        if not table.watches or table.looking:
            return
        watches = [watch for watch, _ in table.watches.values()]

        def look() -> None:
            over = watches
            try:
                over = [watch for watch in watches if not watch.is_pending()]
            finally:
                self.send(me, Looked(table, over))

        table.looking = True
        FILE_POOL.submit(look, self._session_id)

    def receiveMsg_Looked(self, message: Looked, sender: Address) -> None:
        table = message.table
        table.looking = False
        for watch in message.over:
            kept, bridge = table.watches.get(watch.id, (None, None))
            if kept is watch:
                del table.watches[watch.id]
                self.send(bridge, Notify(MissingChanged(watch.id)))
        if table.watches:
            self.deadlines.set("look", LOOK_EVERY_S, self._look)

    def on_fault(self, message: Any, sender: Address, error: Exception) -> None:
        if isinstance(message, Call):
            failure = InternalError(f"the request failed inside the server: {error}")
            self.send(message.bridge, Failure(message.token, failure))


def outcome_of(call: Call, work: Callable[[], WireStruct]) -> Outcome:
    """The result of a request, or the error that it ended in."""
    try:
        return work()
    except ExecServerError as error:
        return error
    except Exception as error:
        log.exception("%s failed", call.params.METHOD)
        return InternalError(f"{call.params.METHOD} failed inside the server: {error!r}")


def carry_out_for(lane: HandleQueue | None, call: Call, room: int | None) -> WireStruct:
    """A request, on its handle if it names one; its result. Blocks. Raises ExecServerError.

    `room`: bytes of content that the client takes. There are no handles in a sandbox: `carry_out` refuses them.
    """
    params = call.params
    if lane is not None and to_enforce(getattr(params, "sandbox", None)) is None:
        return lane.handle.carry_out(params)  # type: ignore[arg-type]  # only such name a handle
    if isinstance(params, WatchMissingParams):
        return WatchMissingResult(Watch(params).is_pending())
    return carry_out(params, room)


def changes(call: Call) -> bool:
    """Whether a request without a handle is more than a question."""
    return isinstance(call.params, CHANGING)
