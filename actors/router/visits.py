"""Visits: the part of the RouterActor through which a client reaches other sessions than its own.

It asks something of them under their session id, or watches one of their processes.
"""

from __future__ import annotations

from typing import cast

import msgspec

from actors.base.actor import BaseActor, Part
from actors.base.messages import (
    Address,
    Answer,
    Attach,
    AttachFailed,
    BridgeDetached,
    CallElsewhere,
    Detach,
    Failure,
    FlushWaits,
    Notify,
    Observe,
    ProcessLost,
    ReadObserved,
    Replay,
)
from actors.router.directory import Directory, Session
from actors.router.observers import Event, Observer, Observers
from protocol.errors import InvalidRequest, UnknownProcess, UnknownSession
from protocol.process import ProcessAttachParams, ProcessAttachResult, ProcessClosed
from protocol.wire_types import Empty


class Visits(Part):
    """Who watches what, and who has asked whom."""

    def __init__(self, actor: BaseActor, directory: Directory) -> None:
        super().__init__(actor)
        self._directory = directory
        self.observers = Observers()
        self.asked: dict[tuple[str, str], tuple[str, Observe]] = {}
        """Attachments whose Replay is awaited: observer and alias -> observed session, question."""

    # -- requests about another session ---------------------------------------------------------------------------

    def receiveMsg_CallElsewhere(self, message: CallElsewhere, bridge: Address) -> None:
        caller = self._directory.attached(message.session_id, bridge)
        target = self._directory.get(message.target_id)
        if target is None:
            self.send(bridge, Failure(message.call.token, UnknownSession(message.target_id)))
        elif caller is not None:
            caller.visited.add(target.session_id)
            self.send(target.connection, message.call)

    def receiveMsg_FlushWaits(self, message: FlushWaits, connection: Address) -> None:
        caller = self._directory.attached(message.session_id, message.bridge)
        for session_id in caller.visited if caller is not None else ():
            target = self._directory.get(session_id)
            if target is not None:
                self.send(target.connection, message)

    # -- process/attach -------------------------------------------------------------------------------------------

    def receiveMsg_Attach(self, message: Attach, connection: Address) -> None:
        call, params = message.call, cast(ProcessAttachParams, message.call.params)
        if self._directory.attached(message.observer_id, call.bridge) is None:
            return  # the connection is gone
        try:
            target = self._target(message.observer_id, params)
        except InvalidRequest as error:
            self.send(call.bridge, Failure(call.token, error))
            self.send(connection, AttachFailed(message.alias, call.token))
            return
        observe = Observe(
            message.observer_id,
            call.bridge,
            call.token,
            params.process_id,
            message.alias,
            params.after_seq,
            params.after_offset,
        )
        self.asked[observe.observer_id, observe.alias] = target.session_id, observe
        self.send(target.connection, observe)

    def _target(self, observer_id: str, params: ProcessAttachParams) -> Session:
        """The session that is to be watched. Raises InvalidRequest."""
        if params.observe_id is not None:
            target = self._directory.observed(params.observe_id)
        else:
            target = self._directory.get(params.session_id or "")
        if target is None:
            raise UnknownSession(params.observe_id or params.session_id or "")
        if target.session_id == observer_id:
            raise InvalidRequest("a session hears of its own processes without process/attach")
        return target

    def receiveMsg_Replay(self, message: Replay, sender: Address) -> None:
        observe = message.observe
        key = (observe.observer_id, observe.alias)
        session = self._directory.attached(observe.observer_id, observe.bridge)
        if session is None or key not in self.asked or self.asked[key][1] != observe:
            return  # the observer's connection is gone, or it has detached meanwhile
        del self.asked[key]
        if message.events is None:
            self._refuse(session, message)
            return
        observer = Observer(observe.observer_id, observe.bridge, observe.alias)
        self.observers.add(message.session_id, message.process_id, observer)
        self.send(observe.bridge, Answer(observe.token, ProcessAttachResult(message.next_seq)))
        for event in message.events:
            for heard in observer.hear(event):
                self.send(observe.bridge, Notify(heard))
            if isinstance(event, ProcessClosed):
                self.observers.close(message.session_id, message.process_id)
        observer.congested = session.congested

    def _refuse(self, session: Session, replay: Replay) -> None:
        """There is nothing to watch."""
        observe = replay.observe
        self.send(observe.bridge, Failure(observe.token, replay.error or UnknownProcess(replay.process_id)))
        self.send(session.connection, AttachFailed(observe.alias, observe.token))

    def receiveMsg_Detach(self, message: Detach, connection: Address) -> None:
        self.observers.remove(message.observer_id, message.alias)
        asked = self.asked.pop((message.observer_id, message.alias), None)
        if asked is not None:
            self.send(asked[1].bridge, Failure(asked[1].token, InvalidRequest("detached before it was attached")))
        # Nothing could tell later whose answer a read under this id waits for.
        self.send(message.call.bridge, ProcessLost(None, message.alias, message.call.token))
        self.send(message.call.bridge, Answer(message.call.token, Empty()))

    def receiveMsg_ReadObserved(self, message: ReadObserved, connection: Address) -> None:
        call = message.call
        session = self._directory.get(message.observer_id)
        found = self.observers.target(message.observer_id, message.alias)
        asked = self.asked.get((message.observer_id, message.alias))
        if found is None and asked is not None:
            found = asked[0], asked[1].process_id
        target = self._directory.get(found[0]) if found is not None else None
        if session is None or found is None or target is None:
            self.send(call.bridge, Failure(call.token, UnknownProcess(message.alias)))
            return
        session.visited.add(target.session_id)
        params = msgspec.structs.replace(call.params, process_id=found[1])
        self.send(target.connection, msgspec.structs.replace(call, params=params))

    # -- what observers hear --------------------------------------------------------------------------------------

    def hear(self, session_id: str, event: Event) -> None:
        """Tell an event of a process to who watches it."""
        for observer in self.observers.of(session_id, event.process_id):
            for heard in observer.hear(event):
                self.send(observer.bridge, Notify(heard))
        if type(event) is ProcessClosed:
            self.observers.close(session_id, event.process_id)

    def replace_process(self, session_id: str, process_id: str) -> None:
        """The id is that of a new process, which nobody watches."""
        self.observers.forget(session_id, process_id)

    def congested(self, session: Session) -> None:
        """The client of this session has become slow, or has taken what was queued."""
        for observer in self.observers.by(session.session_id):
            observer.congested = session.congested
            if not session.congested:
                for gap in observer.take_gap():
                    self.send(session.bridge, Notify(gap))

    # -- the end of a visit ---------------------------------------------------------------------------------------

    def leave(self, session: Session) -> None:
        """Its client asks nothing of other sessions any more, and watches nothing there."""
        for session_id in session.visited:
            target = self._directory.get(session_id)
            if target is not None:
                self.send(target.connection, BridgeDetached(session.bridge, of_owner=False))
        session.visited.clear()
        self.observers.remove_all(session.session_id)
        self.asked = {key: asked for key, asked in self.asked.items() if key[0] != session.session_id}

    def void(self, session_id: str, process_id: str | None) -> None:
        """What clients of other sessions have asked of this process, or of the whole session, has no answer."""
        for target_id, observe in list(self.asked.values()):
            if target_id == session_id and process_id in (None, observe.process_id):
                observer = self._directory.attached(observe.observer_id, observe.bridge)
                del self.asked[observe.observer_id, observe.alias]
                if observer is not None:
                    self._refuse(observer, Replay(session_id, observe.process_id, observe, None, 0))
                self.send(observe.bridge, ProcessLost(None, observe.alias))
        for session in self._directory:
            if session_id in session.visited and session.bridge is not None:
                self.send(session.bridge, ProcessLost(session_id, process_id))
                for alias in self.observers.aliases(session.session_id, session_id, process_id):
                    self.send(session.bridge, ProcessLost(None, alias))
        if process_id is not None:
            self.observers.close(session_id, process_id)
