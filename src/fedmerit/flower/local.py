"""A grid inside this process: every node is a function. For tests and measurements."""

from collections.abc import Callable, Iterable, Mapping
from itertools import count

from flwr.app import Error, Message, RecordDict
from flwr.serverapp import Grid
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity

Node = Callable[[Message], Message | Iterable[Message] | None]
_APP_RAISED = 2
_SERVER = 1


class LocalGrid(Grid):
    """Hands every message to its node's function and returns what that gives.

    Parameters
    ----------
    nodes : mapping of node id to function
        A function gets the message and returns a reply, several, or None for silence. If it
        raises, an error is sent, as Flower does.
    """

    def __init__(self, nodes: Mapping[int, Node]) -> None:
        self.nodes = dict(nodes)
        self._ids = count(1)
        # Messages know who makes them through this, which Flower sets in its server processes.
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, _SERVER, 1

    def set_run(self, run: Run) -> None:
        """Do nothing: there is one run."""

    @property
    def run(self) -> Run:
        """There is no run to speak of."""
        return Run.create_empty(1)

    def create_message(
        self,
        content: RecordDict,
        message_type: str,
        dst_node_id: int,
        group_id: str,
        ttl: float | None = None,
    ) -> Message:
        """Create a message."""
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)

    def get_node_ids(self) -> Iterable[int]:
        """Return the ids of all nodes."""
        return list(self.nodes)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Not there: messages are sent and received in one step."""
        raise NotImplementedError("a local grid sends and receives in one step")

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Not there: messages are sent and received in one step."""
        raise NotImplementedError("a local grid sends and receives in one step")

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        """Call every node that a message is for."""
        del timeout
        replies: list[Message] = []
        for message in messages:
            message.metadata.__dict__["_message_id"] = f"message-{next(self._ids)}"
            try:
                reply = self.nodes[message.metadata.dst_node_id](message)
            except Exception as error:  # as in a ClientApp, whatever it is
                reply = Message(Error(_APP_RAISED, repr(error)), reply_to=message)
            if isinstance(reply, Message):
                replies.append(reply)
            elif reply is not None:
                replies.extend(reply)
        return replies
