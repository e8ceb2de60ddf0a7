"""Request as its params describe it: the method, who answers it, and with what. One class is one method.

    class ProcessScreenParams(ProcessRequest, frozen=True):
        METHOD = "process/screen"
        RESULT = ProcessScreenResult

Everything that handles requests in general follows from that: the table of methods, both codecs, the JSON Schema, the
client's typed `call`, which actor a request is passed to. docs/architecture.md, "Adding a request", goes through one.
"""

from __future__ import annotations

import enum
from typing import Any, ClassVar, Protocol, TypeVar

from protocol.errors import UnknownProcess
from protocol.wire_types import Name, WireStruct

ResultT = TypeVar("ResultT", bound=WireStruct)
ResultT_co = TypeVar("ResultT_co", bound=WireStruct, covariant=True)


class Owner(enum.Enum):
    """Who answers a request."""

    ROUTER = "router"  # knows all sessions
    SESSION = "session"
    PROCESS = "process"  # the process that `process_id` names
    SERVICE = "service"  # the service of the session for this family


class Params(WireStruct, frozen=True):
    """Params of a request."""

    METHOD: ClassVar[str]
    """Its name on the wire."""
    RESULT: ClassVar[type[WireStruct]]
    """The Struct of its result."""
    FAMILY: ClassVar[str]
    """What errors of the handshake call the methods that it belongs to; it names the service, too."""
    OWNER: ClassVar[Owner] = Owner.SERVICE
    REPEATABLE: ClassVar[bool] = False
    """Whether carrying it out twice does no more than once, so that a client may send it again after a cut."""
    EXTENSION: ClassVar[str | None] = None
    """The addition to the wire that it is, or belongs to (docs/protocol.md, "How the wire may grow")."""
    OBSERVABLE: ClassVar[bool] = False
    """Whether one who only watches the process may ask, too."""

    @property
    def may_repeat(self) -> bool:
        """Whether this request may be sent again although it may have been carried out."""
        return self.REPEATABLE

    @property
    def asks_for_kept_output(self) -> bool:
        """Whether the answer comes at once and may bring all output that is kept of a process."""
        return False


class NoParams(Params, frozen=True, forbid_unknown_fields=True):
    """Params that may only be absent, null or `{}`."""


class ProcessRequest(Params, frozen=True):
    """Params of a request about one process."""

    FAMILY = "exec"
    OWNER = Owner.PROCESS

    process_id: Name

    def result_without_process(self) -> WireStruct:
        """The result where there is no such process. Raises UnknownProcess, unless the request has one for that."""
        raise UnknownProcess(self.process_id)


class ParamsFor(Protocol[ResultT_co]):
    """Params as the client's `call` sees them: what tells it the type of the result."""

    @property
    def METHOD(self) -> str:  # a class attribute of Params
        """See Params."""

    @property
    def RESULT(self) -> type[ResultT_co]:
        """See Params."""


AnyParams = type[Params]


def table_of(*modules: Any) -> dict[str, AnyParams]:
    """Method name -> params, of all requests that these modules define, in their order."""
    requests = [
        kind
        for module in modules
        for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, Params) and "METHOD" in vars(kind)
        if kind.__module__ == module.__name__
    ]
    return {kind.METHOD: kind for kind in requests}
