"""Scratch memory: who holds which buffer, and how large it grows."""

import threading

import pytest
import torch

from tercet_kernels._arena import Arena


def lend(arena: Arena, size: int, name: str = "a", dtype: torch.dtype = torch.int32, device: str = "cpu"):
    return arena.lend(name, (size,), dtype, torch.device(device))


def test_a_returned_buffer_is_lent_again(device: str) -> None:
    arena = Arena()
    with lend(arena, 100, device=device) as first:
        assert (first.shape, first.dtype, first.device.type) == ((100,), torch.int32, device)
        first.fill_(7)
        address = first.data_ptr()
    with arena.lend("a", (2, 50), torch.float32, torch.device(device)) as second:
        assert second.data_ptr() == address
        assert torch.equal(second.view(torch.int32), torch.full((2, 50), 7, dtype=torch.int32, device=device))


def test_a_buffer_has_one_holder_and_one_name() -> None:
    arena = Arena()
    with lend(arena, 8) as first, lend(arena, 8) as second, lend(arena, 8, "b") as other:
        held = {x.data_ptr() for x in (first, second, other)}
        assert len(held) == 3
    with lend(arena, 8, "b") as again:
        assert again.data_ptr() == other.data_ptr()


def test_grows_by_powers_of_two_and_drops_what_is_too_small() -> None:
    arena = Arena()
    with lend(arena, 3):
        assert arena.bytes == 16
    with lend(arena, 33):
        assert arena.bytes == 256
    assert arena.bytes == 256
    with lend(arena, 64):
        assert arena.bytes == 256
    with lend(arena, 0) as empty:
        assert empty.shape == (0,)


def test_release_keeps_what_is_lent() -> None:
    arena = Arena()
    with lend(arena, 4), lend(arena, 4, "b"):
        pass
    with lend(arena, 4) as held:
        arena.release()
        assert arena.bytes == 16
        held.fill_(1)
    assert arena.bytes == 16
    arena.release()
    assert arena.bytes == 0


def test_keeps_no_more_than_it_may() -> None:
    arena = Arena(keep=64)
    with lend(arena, 8), lend(arena, 8, "b"), lend(arena, 1, "c"):
        assert arena.bytes == 68
    assert arena.bytes == 36  # "c" came back first, then "b"; "a" had no room left
    with lend(arena, 100):
        assert arena.bytes == 36 + 512
    assert arena.bytes == 36


def test_a_buffer_comes_back_after_an_error() -> None:
    arena = Arena()
    with pytest.raises(ZeroDivisionError), lend(arena, 4):
        raise ZeroDivisionError
    with lend(arena, 4):
        assert arena.bytes == 16


def test_threads_never_share_a_buffer() -> None:
    arena, wrong = Arena(), []

    def work(value: int) -> None:
        for _ in range(200):
            with lend(arena, 64) as buffer:
                buffer.fill_(value)
                if not bool((buffer == value).all()):
                    wrong.append(value)

    workers = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong
    assert 256 <= arena.bytes <= 4 * 256


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_streams_have_buffers_of_their_own() -> None:
    arena = Arena()
    with lend(arena, 8, device="cuda") as first:
        address = first.data_ptr()
    with torch.cuda.stream(torch.cuda.Stream()), lend(arena, 8, device="cuda") as other:
        assert other.data_ptr() != address
