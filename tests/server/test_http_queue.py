"""Requests that wait for their turn."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading

import pytest
from server_fakes import Broken, BrokenTokenizer, Bytes, Deaf, Echo, EndlessModel, Paced, SlowTokenizer
from server_live import SECONDS, read_response, read_until, reset, wait_for

from server import Generator
from server.errors import ClientLeft, RequestError
from server.waiting import WaitingRoom


def waiting(server):
    return len(server.app.waiting_room)


def begin_waiting(server, **fields):
    before = waiting(server)
    client = server.begin(**fields)
    wait_for(lambda: waiting(server) == before + 1)
    return client


def test_requests_are_served_in_the_order_in_which_they_came(serve):
    model = Paced()
    server = serve(model, queue=3)
    running = server.begin("0", max_tokens=1)
    wait_for(lambda: not server.is_free())
    clients = [
        begin_waiting(server, prompt=str(number), max_tokens=1, stream=number == 2) for number in (1, 2, 3)
    ]
    for client in (running, *clients):
        model.step()
        assert read_response(client).status == 200
    assert server.counts() == {"ok": 4}
    assert server.is_free()
    assert server.generator.metrics.in_flight == 0


def test_those_beyond_the_places_are_refused(serve):  # B077
    model = Paced()
    server = serve(model, queue=2)
    running = server.begin(max_tokens=1)
    wait_for(lambda: not server.is_free())
    clients = [begin_waiting(server, max_tokens=1) for _ in range(2)]
    for _ in range(3):
        assert server.generate(max_tokens=1).status == 429
    model.step(3)
    assert [read_response(client).status for client in (running, *clients)] == [200, 200, 200]
    assert server.counts() == {"ok": 3, "busy": 3}


def test_nothing_is_sent_to_who_waits(serve):
    model = Paced()
    server = serve(model, queue=1, ping_seconds=0.01)
    running = server.begin(max_tokens=1)
    wait_for(lambda: not server.is_free())
    client = begin_waiting(server, stream=True, max_tokens=1, prompt="x" * 2000)
    client.settimeout(0.05)
    with pytest.raises(TimeoutError):
        client.recv(1)
    client.settimeout(20)
    model.step()
    assert read_response(running).status == 200
    assert read_until(client, b"\r\n\r\n").startswith(b"HTTP/1.1 413 ")  # and thus a real status
    assert server.is_free()


@pytest.mark.parametrize("leave", [lambda client: client.close(), reset], ids=["fin", "rst"])
def test_who_leaves_while_it_waits_is_not_served(serve, leave):  # B044, B079
    model = Paced()
    server = serve(model, queue=3)
    running = server.begin("a", max_tokens=1)
    wait_for(lambda: not server.is_free())
    gone, staying = begin_waiting(server, max_tokens=1), begin_waiting(server, max_tokens=1)
    leave(gone)
    wait_for(lambda: waiting(server) == 1)
    assert server.counts() == {"cancelled": 1}
    model.step(2)
    assert read_response(running).status == read_response(staying).status == 200
    assert server.sample("kael_request_seconds_count") == 2


def test_who_waits_has_its_turn_after_a_failure_or_a_client_that_leaves(serve):
    model = EndlessModel()
    server = serve(model, queue=2)
    running = server.begin()
    wait_for(lambda: server.received > 0)
    clients = [begin_waiting(server, max_tokens=3) for _ in range(2)]
    server.generator.model = Broken()
    running.close()
    assert [read_response(client).status for client in clients] == [500, 500]
    wait_for(server.is_free)
    server.generator.model = Echo()
    server.generator.tokenizer = BrokenTokenizer()
    assert [server.generate().status for _ in range(2)] == [500, 500]
    server.generator.tokenizer = Bytes()
    assert server.generate(max_tokens=1).status == 200


def test_those_who_wait_are_told_of_a_shutdown(serve):
    server = serve(EndlessModel(), queue=2)
    running = server.begin()
    wait_for(lambda: server.received > 0)
    clients = [begin_waiting(server) for _ in range(2)]
    assert server.close()
    assert [read_response(client).status for client in clients] == [503, 503]
    assert read_response(running).json["finish_reason"] == "shutdown"
    assert server.counts() == {"busy": 2, "cancelled": 1}


def test_a_worker_that_does_not_come_back_is_waited_for_as_long_as_the_client_likes(serve):
    model = Deaf()
    server = serve(model, queue=1)
    running = server.begin(stream=True)
    assert model.started.wait(5)
    client = begin_waiting(server, max_tokens=1)
    running.close()
    wait_for(lambda: server.counts() == {"cancelled": 1})
    assert waiting(server) == 1
    model.released.set()
    assert read_response(client).status == 200


def test_the_time_to_wait_counts_those_who_wait(serve):
    server = serve(EndlessModel(seconds=0.02), queue=2)
    running = server.begin(max_tokens=100)
    wait_for(lambda: server.received > 10)
    clients = [begin_waiting(server, max_tokens=tokens) for tokens in (300, 400)]
    seconds = int(server.generate().headers["Retry-After"])
    assert 14 <= seconds <= 60  # 700 tokens and more at 20 ms and more
    for client in (*clients, running):
        client.close()
    server.wait_until_free()


def test_many_clients_at_once_are_all_served(serve):
    server = serve(Echo(), SlowTokenizer(seconds=0.001), queue=40)
    with concurrent.futures.ThreadPoolExecutor(40) as clients:
        answers = [clients.submit(server.generate, str(number), max_tokens=2) for number in range(120)]
        texts = [answer.result().json["text"][0] for answer in answers]
    assert texts == [str(number)[0] for number in range(120)]
    assert server.counts() == {"ok": 120}
    assert server.is_free()


def run_alone(test):
    """Runs a coroutine with a room over a slot that is taken."""

    async def run():
        generator = Generator(Echo(), Bytes())
        generator.reserve()
        await test(generator, WaitingRoom(generator, 2), asyncio.get_running_loop().create_future())

    asyncio.run(asyncio.wait_for(run(), SECONDS))


def test_a_slot_that_comes_as_the_client_leaves_is_passed_on():
    async def test(generator, room, left):
        first = asyncio.ensure_future(room.reserve(1, left))
        second = asyncio.ensure_future(room.reserve(1, asyncio.get_running_loop().create_future()))
        await asyncio.sleep(0)
        generator.release()
        await asyncio.sleep(0)  # the turn is given
        left.set_result(None)
        with pytest.raises(ClientLeft):
            await first
        await second
        assert generator.slot.locked()

    run_alone(test)


def test_a_cancelled_task_gives_its_place_up():
    async def test(generator, room, left):
        task = asyncio.ensure_future(room.reserve(1, left))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len(room) == 0

    run_alone(test)


def test_a_slot_that_another_thread_takes_is_waited_for_again():
    async def test(generator, room, left):
        task = asyncio.ensure_future(room.reserve(1, left))
        await asyncio.sleep(0)
        generator.release()
        generator.reserve()  # before the loop has given the turn
        await asyncio.sleep(0.01)
        assert not task.done()
        threading.Thread(target=generator.release).start()
        await task

    run_alone(test)


def test_without_places_the_room_refuses():
    async def run():
        generator = Generator(Echo(), Bytes())
        room = WaitingRoom(generator, 0)
        await room.reserve(1, asyncio.get_running_loop().create_future())
        with pytest.raises(RequestError):
            await room.reserve(1, asyncio.get_running_loop().create_future())

    asyncio.run(run())
