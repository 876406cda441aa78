from tests.public.auth import KeyHolder


class Room:
    """A fetch of an operator, with enough memory."""

    holder: KeyHolder | None = None

    def is_client_there(self) -> bool:
        return True

    def reserve_nowait(self, size: int) -> bool:
        return True

    async def reserve(self, size: int) -> None:
        pass
