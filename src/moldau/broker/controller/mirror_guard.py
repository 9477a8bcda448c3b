"""What may not be done to a topic that mirrors another cluster's (mirrors.py)."""

from moldau.broker.controller.decision import Refusal
from moldau.broker.metadata.image import Image
from moldau.broker.metadata.mirrors import MirrorState
from moldau.common.protocol.errors import ErrorCode


def refuse_mirror(image: Image, topic: str, what: str) -> None:
    """Refusal: the topic is a mirror, and `what` ("be deleted") would part it from its source."""
    mirror = image.mirrors.get(topic)
    if mirror is not None and mirror.state is not MirrorState.FAILED_OVER:
        raise Refusal(
            ErrorCode.POLICY_VIOLATION,
            f"{topic} mirrors {mirror.source} over the link {mirror.link} and cannot {what} until it is "
            "failed over (moldau mirror failover) or removed from the link (moldau mirror delete)",
        )
